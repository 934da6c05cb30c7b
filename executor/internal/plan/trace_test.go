package plan_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Sends begin as soon as what they send is there, also on one worker, so that bytes move while the rest is computed.
func TestSendsBeginBeforeTheRestIsComputed(t *testing.T) {
	x := fixture.Numbers(1, 4)
	compiled, err := plan.Compile(plan.Request{Block: talking().Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"y", "e"},
		Scope: executor.NewScope(), Env: ops.Env{Comm: &lazyComm{}}})
	if err != nil {
		t.Fatal(err)
	}
	var trace plan.Trace
	compiled.SetTrace(&trace)
	if err := compiled.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	events, lost := trace.Events()
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
	}
	want := []string{"scale", "send", "scale", "send_barrier", "recv", "scale", "fetch_barrier", "scale"}
	if !slices.Equal(names, want) || lost != 0 {
		t.Errorf("ran %v, want %v; %d lost", names, want, lost)
	}
}

func TestStepsOfATracedPlanAreTimed(t *testing.T) {
	compiled, pool := trainable(t)
	defer pool.Close()
	var trace plan.Trace
	compiled.SetTrace(&trace)
	for _, on := range []*plan.Pool{nil, pool} {
		if err := compiled.Run(context.Background(), on); err != nil {
			t.Fatal(err)
		}
	}
	lanes := map[int]bool{}
	events, _ := trace.Events()
	for _, e := range events {
		lanes[e.Lane] = true
	}
	for i, s := range compiled.Steps() {
		if s.Runs != 2 || s.Name == "" || len(s.Shapes) != len(s.Memory) {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	if !lanes[0] || len(lanes) > 2 {
		t.Errorf("lanes %v of two workers", lanes)
	}
}
