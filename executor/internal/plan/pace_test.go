package plan

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// compiledFor compiles an MLP of 784-200-200-10 for a batch and a number of workers.
func compiledFor(t *testing.T, batch int64, workers int, grain time.Duration) *Plan {
	t.Helper()
	m := fixture.MLP(t, 784, []int64{200, 200}, optimizer.SGD(0.1))
	scope := values{}
	startup, err := Compile(Request{Block: m.Program.Startup.Global(), Scope: scope})
	if err == nil {
		err = startup.Run(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile(Request{Block: m.Program.Global(), Scope: scope, Fetch: []string{m.Loss}, Workers: workers, Grain: grain,
		Feeds: map[string]ops.Meta{
			"image": {Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{batch, 784}},
			"label": {Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{batch, 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// What is too small to gain from a second worker must not pay for one: its plan is that of one worker, without parts, without products that are cut
// by columns, and without a pool.
func TestPlansTooSmallToShareAreThoseOfOneWorker(t *testing.T) {
	const grain = 2 * time.Microsecond
	for _, c := range []struct {
		batch  int64
		shared bool
	}{{1, !kernel.Vectorized()}, {4, !kernel.Vectorized()}, {16, true}, {64, true}} {
		one, two := compiledFor(t, c.batch, 1, grain), compiledFor(t, c.batch, 2, grain)
		if shared := two.segments[0].flow != nil; shared != c.shared {
			t.Errorf("batch of %d: runs on a pool: %v", c.batch, shared)
		}
		if same := fmt.Sprint(one.Steps()) == fmt.Sprint(two.Steps()); same == c.shared {
			t.Errorf("batch of %d: the plan of two workers is that of one: %v", c.batch, same)
		}
	}
	if every := compiledFor(t, 1, 2, 0); every.segments[0].flow == nil {
		t.Error("a grain of 0 does not divide everything")
	}
}

// A trial keeps to the faster way, tries the other ever more rarely, and changes over when that has become the faster one.
func TestTrialsFollowTheFasterWay(t *testing.T) {
	tr := &trial{stretch: firstStretch}
	shared, alone := 60*time.Microsecond, 100*time.Microsecond
	run := func(n int) (slow int) {
		for range n {
			took := shared
			if tr.runsAlone() {
				took = alone
			}
			if took > min(shared, alone) {
				slow++
			}
			tr.add(took)
		}
		return slow
	}
	if run(20_000); tr.alone {
		t.Error("alone, which is slower")
	}
	if slow := run(20_000); slow > 20_000/400 {
		t.Errorf("%d of 20000 runs were slow", slow)
	}
	shared = 300 * time.Microsecond // the second core is busy
	if run(2 * longStretch); !tr.alone || tr.runsAlone() == tr.otherWay() {
		t.Error("shared, which has become slower")
	}
	shared = 99 * time.Microsecond
	if run(20_000); !tr.alone {
		t.Error("changed over for a gain within noise")
	}
	shared = 50 * time.Microsecond
	if run(2 * longStretch); tr.alone {
		t.Error("alone, which has become slower")
	}
}

// One run that another process disturbs decides nothing.
func TestTrialsOverlookSingleRuns(t *testing.T) {
	tr := &trial{stretch: firstStretch}
	for i := range 10_000 {
		took := 60 * time.Microsecond
		if tr.runsAlone() {
			took = 100 * time.Microsecond
		}
		if i%4 == 0 {
			took = 3 * time.Millisecond
		}
		if tr.add(took); tr.alone {
			t.Fatalf("changed over after run %d", i)
		}
	}
}

func TestPlansAreTriedWhereGainsAreUncertain(t *testing.T) {
	const grain = 2 * time.Microsecond
	middle := int64(64)
	if !kernel.Vectorized() {
		middle = 1
	}
	for batch, tried := range map[int64]bool{middle: true, 4096: false} {
		if p := compiledFor(t, batch, 2, grain); (p.trial != nil) != tried {
			t.Errorf("batch of %d: tried: %v", batch, !tried)
		}
	}
	if p := compiledFor(t, middle, 2, 0); p.trial != nil {
		t.Error("a plan that is to be divided wherever it can be is tried")
	}
	p, pool := compiledFor(t, middle, 2, grain), NewPool(2)
	defer pool.Close()
	for range 2 * firstStretch {
		if err := p.Run(context.Background(), pool); err != nil {
			t.Fatal(err)
		}
	}
	if p.trial.run == 0 {
		t.Error("runs do not count")
	}
}
