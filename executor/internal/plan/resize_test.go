package plan_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/layers"
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

// A batch may have sequences without a row: then lookups have nothing to do, which is another form of plan. A plan that takes the dims, and the one after it, compute the
// bits of new plans.
func TestAPlanMeetsSequencesWithoutRows(t *testing.T) {
	m := layers.NewModel().Seed(1)
	x := layers.Data(m, "x", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(2))
	h := layers.Mul(layers.Embedding(x, 7, 4), layers.Embedding(x, 5, 4))
	h = layers.SequencePool(layers.SequencePool(h, "max"), "first")
	loss := layers.Mean(layers.FC(h, 6, layers.Act("tanh")), layers.Name("loss"))
	optimizer.Adagrad(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	feed := func(outer, inner []int64) map[string]*tensor.Tensor {
		ids := make([]int64, inner[len(inner)-1])
		for i := range ids {
			ids[i] = int64(i) % 5
		}
		v, err := tensor.FromSlice(ids, int64(len(ids)), 1)
		if err != nil {
			t.Fatal(err)
		}
		v.SetLoD([][]int64{outer, inner})
		return map[string]*tensor.Tensor{"x": v}
	}
	some, none := feed([]int64{0, 0, 3, 7}, []int64{0, 3, 6, 9, 10, 10, 10, 14}), feed([]int64{0, 0, 0, 2}, []int64{0, 0, 0})
	more := feed([]int64{0, 1, 3}, []int64{0, 8, 13, 17})
	for _, workers := range []int{1, 2} {
		pool := plan.NewPool(workers)
		defer pool.Close()
		kept, fresh := started(t, p), started(t, p)
		compile := func(f map[string]*tensor.Tensor, scope *executor.Scope) *plan.Plan {
			c, err := plan.Compile(plan.Request{Block: p.Global(), Feeds: lodMetas(f), Fetch: []string{"loss"}, Scope: scope, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		old := compile(some, kept)
		for i, f := range []map[string]*tensor.Tensor{some, none, some, more, none, none, more} {
			if !plan.Resize(old, lodMetas(f)) {
				old = compile(f, kept)
			}
			var got [2]float32
			for k, c := range []*plan.Plan{old, compile(f, fresh)} {
				if err := errors.Join(c.Feed("x", f["x"]), c.Run(t.Context(), pool)); err != nil {
					t.Fatalf("%d workers, batch %d: %v", workers, i, err)
				}
				got[k] = c.Fetched()[0].Float32s()[0]
			}
			if math.Float32bits(got[0]) != math.Float32bits(got[1]) {
				t.Errorf("%d workers, batch %d: the loss is %v, want %v", workers, i, got[0], got[1])
			}
		}
		for _, name := range fresh.Names() {
			a, _ := kept.Find(name)
			if b, _ := fresh.Find(name); !sameBits(a.Float32s(), b.Float32s()) {
				t.Errorf("%d workers: %s is %v, want %v", workers, name, a, b)
			}
		}
	}
}

// lodMetas is metas for values with LoD.
func lodMetas(feed map[string]*tensor.Tensor) map[string]ops.Meta {
	m := map[string]ops.Meta{}
	for name, t := range feed {
		one := ops.Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims(), LoDLevel: len(t.LoD())}
		for _, level := range t.LoD() {
			one.Sequences = append(one.Sequences, int64(len(level)-1))
		}
		m[name] = one
	}
	return m
}
