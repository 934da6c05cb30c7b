package plan_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// A plan that was given other dims computes the bits of a plan that was compiled for them, also when it shrinks and grows again.
func TestAResizedPlanComputesTheBitsOfANewOne(t *testing.T) {
	pool := plan.NewPool(3)
	defer pool.Close()
	resized := 0
	rapid.Check(t, func(t *rapid.T) {
		p, values := fixture.RandomProgram(t, program.Unknown)
		fetch := rapid.SliceOfDistinct(rapid.SampledFrom(values), rapid.ID[string]).Draw(t, "fetch")
		on := rapid.SampledFrom([]*plan.Pool{nil, pool}).Draw(t, "pool")
		kept, fresh := started(t, p), started(t, p)
		var old *plan.Plan
		for step := range 4 {
			rows := rapid.SampledFrom([]int64{1, 2, 3, 4, 12, 24, 100, 33}).Draw(t, "rows")
			feed := map[string]*tensor.Tensor{"x": fixture.Numbers(uint64(step), rows, 4)}
			if old != nil && plan.Resize(old, metas(feed)) {
				resized++
			} else {
				old = compiledFor(t, p, feed, fetch, kept, on)
			}
			want := compiledFor(t, p, feed, fetch, fresh, on)
			for _, compiled := range []*plan.Plan{old, want} {
				if err := compiled.Feed("x", feed["x"]); err != nil {
					t.Fatal(err)
				}
				if err := compiled.Run(context.Background(), on); err != nil {
					t.Fatal(err)
				}
			}
			for i, name := range fetch {
				if a, b := old.Fetched()[i], want.Fetched()[i]; !slices.Equal(a.Dims(), b.Dims()) || !sameBits(a.Float32s(), b.Float32s()) {
					t.Fatalf("step %d: %s is %v, want %v", step, name, a, b)
				}
			}
			for _, name := range fresh.Names() {
				a, _ := kept.Find(name)
				if b, _ := fresh.Find(name); !sameBits(a.Float32s(), b.Float32s()) {
					t.Fatalf("step %d: %s is %v, want %v", step, name, a, b)
				}
			}
		}
	})
	if resized == 0 {
		t.Error("no plan was given other dims")
	}
}

func compiledFor(t fataler, p *program.Program, feed map[string]*tensor.Tensor, fetch []string, scope *executor.Scope, on *plan.Pool) *plan.Plan {
	t.Helper()
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Feeds: metas(feed), Fetch: fetch, Scope: scope, Workers: workersOf(on), Env: ops.Env{Comm: &lateComm{}}})
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// A plan of a model takes every number of rows, allocates nothing in steps of known dims, and refuses what is no variation of its feeds.
func TestAPlanTakesAnyNumberOfRows(t *testing.T) {
	m := fixture.MLP(t, 20, []int64{16, 16}, optimizer.Adam(0.01))
	feedOf := func(rows int64) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"image": fixture.Numbers(1, rows, 20), "label": fixture.Labels(1, rows, 10)}
	}
	compiled, err := plan.Compile(plan.Request{Block: m.Program.Global(), Feeds: metas(feedOf(8)), Fetch: []string{m.Loss}, Scope: started(t, m.Program), CheckFinite: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int64{7, 64, 2, 8, 65} {
		feed := feedOf(rows)
		if !plan.Resize(compiled, metas(feed)) {
			t.Fatalf("refuses %d rows", rows)
		}
		for name, value := range feed {
			if err := compiled.Feed(name, value); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(5, func() {
			if err := compiled.Run(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%d rows: %v allocations per step", rows, n)
		}
	}
	wrong := feedOf(8)
	wrong["image"] = fixture.Numbers(1, 8, 19)
	for _, feed := range []map[string]*tensor.Tensor{wrong, feedOf(9)} { // the plan that has refused one is of no use
		if plan.Resize(compiled, metas(feed)) {
			t.Errorf("takes %v", feed["image"])
		}
	}
}
