package plan

import (
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
		if shared := two.dataflow != nil; shared != c.shared {
			t.Errorf("batch of %d: runs on a pool: %v", c.batch, shared)
		}
		if same := fmt.Sprint(one.Steps()) == fmt.Sprint(two.Steps()); same == c.shared {
			t.Errorf("batch of %d: the plan of two workers is that of one: %v", c.batch, same)
		}
	}
	if every := compiledFor(t, 1, 2, 0); every.dataflow == nil {
		t.Error("a grain of 0 does not divide everything")
	}
}
