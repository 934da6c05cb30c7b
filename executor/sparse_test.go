package executor_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestSparseTrainsLikeDense trains both ways, one after another and on several goroutines.
func TestSparseTrainsLikeDense(t *testing.T) {
	for name, minimizer := range map[string]func() *optimizer.Optimizer{
		"sgd":     func() *optimizer.Optimizer { return optimizer.SGD(0.5) },
		"adagrad": func() *optimizer.Optimizer { return optimizer.Adagrad(0.1) },
		"adam":    func() *optimizer.Optimizer { return optimizer.Adam(0.01) },
	} {
		t.Run(name, func(t *testing.T) {
			train := func(workers int, opts ...layers.Option) map[string][]float32 {
				p := clicks(t, minimizer(), opts...)
				l := executor.New(executor.WithWorkers(workers))
				defer l.Close()
				for step := range int64(5) {
					if _, err := l.Run(t.Context(), p, click(step), "loss"); err != nil {
						t.Fatal(err)
					}
				}
				values := map[string][]float32{}
				for _, declared := range p.Global().Vars() {
					if declared.IsParameter {
						v, _ := l.Scope().Find(declared.Name)
						values[declared.Name] = v.Float32s()
					}
				}
				return values
			}
			dense, sparse, parallel := train(1), train(1, layers.Sparse()), train(3, layers.Sparse())
			for parameter, want := range dense {
				if !slices.Equal(sparse[parameter], parallel[parameter]) {
					t.Errorf("%s depends on the number of workers", parameter)
				}
				for i := range want { // a row in both lookups is summed in another grouping
					if got := sparse[parameter][i]; math.Abs(float64(got-want[i])) > 1e-5 {
						t.Errorf("element %d of %s is %v, dense %v", i, parameter, got, want[i])
						break
					}
				}
			}
		})
	}
}

func TestSparseGradientsCanBeFetched(t *testing.T) {
	p := clicks(t, optimizer.SGD(0.5), layers.Sparse())
	l := executor.New()
	defer l.Close()
	feed := click(1)
	fetched, err := l.Run(t.Context(), p, feed, "words@GRAD")
	if err != nil {
		t.Fatal(err)
	}
	rows, height := fetched[0].Selected()
	if rows == nil || height != 50 || !slices.Equal(fetched[0].Dims(), []int64{64, 6}) {
		t.Fatalf("fetched %v", fetched[0])
	}
	want := slices.Concat(feed["title"].Int64s(), feed["query"].Int64s()) // the backward pass meets the second lookup first
	if !slices.Equal(rows.Int64s(), want) {
		t.Errorf("rows %v, want %v", rows.Int64s(), want)
	}
	for i, row := range rows.Int64s()[:32] {
		if padding := row == 0; padding != slices.Equal(fetched[0].Float32s()[i*6:][:6], make([]float32, 6)) {
			t.Errorf("place %d, row %d: gradient %v", i, row, fetched[0].Float32s()[i*6:][:6])
		}
	}
}

func TestSparseStepAllocatesNothing(t *testing.T) {
	for _, lazy := range [][]optimizer.Option{nil, {optimizer.Lazy()}} {
		p := clicks(t, optimizer.Adam(0.01, lazy...), layers.Sparse())
		l := executor.New()
		defer l.Close()
		feed := click(1)
		prepared, err := l.Prepare(t.Context(), p, feed, "loss")
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(10, func() { _, err = prepared.Run(t.Context(), feed) }); n != 0 || err != nil {
			t.Errorf("%v allocations a step, %v", n, err)
		}
	}
}

// TestRowsInTheWrongPlace gives programs from outside that use sparse rows where no kernel expects them.
func TestRowsInTheWrongPlace(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *program.Program)
		kind  fault.Kind
	}{
		"gradient declared dense": {func(p *program.Program) {
			v, _ := p.Global().Var("weights@GRAD")
			v.Kind = program.LoDTensor
		}, fault.TypeMismatch},
		"gradient that outlives the run": {func(p *program.Program) {
			v, _ := p.Global().Var("weights@GRAD")
			v.Persistable = true
		}, fault.Unsupported},
		"rows that nothing computes": {func(p *program.Program) {
			b := p.Global()
			b.Ops = slices.DeleteFunc(b.Ops, func(op *program.Op) bool { return slices.Contains(op.OutputNames(), "weights@GRAD") })
		}, fault.NotFound},
		"rows as a feed": {func(p *program.Program) {
			v, _ := p.Global().Var("clicked")
			v.Kind = program.SelectedRows
		}, fault.Unsupported},
	} {
		p := clicks(t, optimizer.SGD(0.5), layers.Sparse())
		c.spoil(p)
		l := executor.New()
		_, err := l.Run(t.Context(), p, click(1), "loss")
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
		l.Close()
	}
}

func TestRowsAreNoFeedForAWhole(t *testing.T) {
	p := clicks(t, optimizer.SGD(0.5), layers.Sparse())
	l := executor.New()
	defer l.Close()
	feed := click(1)
	rows, _ := tensor.FromSlice(make([]int64, 8))
	var err error
	if feed["clicked"], err = tensor.Select(feed["clicked"], rows, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), p, feed, "loss"); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("feeding %v: %v", feed["clicked"], err)
	}
}

// What trainers send of a sparse gradient, one trainer merges to what one machine has.
func TestReferenceOfOneTrainerIsLocal(t *testing.T) {
	for name, minimizer := range map[string]func() *optimizer.Optimizer{
		"sgd":       func() *optimizer.Optimizer { return optimizer.SGD(0.5) },
		"lazy adam": func() *optimizer.Optimizer { return optimizer.Adam(0.01, optimizer.Lazy()) },
		"momentum":  func() *optimizer.Optimizer { return optimizer.Momentum(0.1, 0.9) },
	} {
		p := clicks(t, minimizer(), layers.Sparse())
		one, err := reference.New(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		local := executor.New()
		defer local.Close()
		for step := range int64(4) {
			want, err := local.Run(t.Context(), p, click(step), "loss")
			if err != nil {
				t.Fatal(err)
			}
			got, err := one.Run(t.Context(), p, click(step), "loss")
			if err != nil || got[0].Float32s()[0] != want[0].Float32s()[0] {
				t.Fatalf("%s, step %d: loss %v, %v, want %v", name, step, got, err, want)
			}
		}
		for _, declared := range p.Global().Vars() {
			if !declared.IsParameter {
				continue
			}
			got, _ := one.Scope().Find(declared.Name)
			want, _ := local.Scope().Find(declared.Name)
			if !slices.Equal(got.Float32s(), want.Float32s()) {
				t.Errorf("%s: %s differs", name, declared.Name)
			}
		}
	}
}

// clicks is a small model of clicks: a table of words that two lookups share, one of them with padding, and a table of weights.
func clicks(t *testing.T, minimizer *optimizer.Optimizer, opts ...layers.Option) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	embed := func(name, table string, width int64, more ...layers.Option) layers.Variable {
		ids := layers.Data(m, name, layers.Dims(4, 1), layers.DType(tensor.Int64))
		with := append(slices.Clone(opts), layers.Param(layers.ParamAttr{Name: table}))
		return layers.Embedding(ids, 50, width, append(with, more...)...)
	}
	words := layers.Add(embed("query", "words", 6), embed("title", "words", 6, layers.PaddingIndex(0)))
	linear := layers.ReduceSum(embed("place", "weights", 1), layers.Axes(1))
	deep := layers.FC(layers.Reshape(words, []int64{-1, 24}), 8, layers.Act("relu"))
	logit := layers.Add(layers.FC(deep, 1), linear)
	clicked := layers.Data(m, "clicked", layers.Dims(1))
	minimizer.Minimize(layers.Mean(layers.SigmoidCrossEntropyWithLogits(logit, clicked), layers.Name("loss")))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// click returns 8 records of which the ids depend on step.
func click(step int64) executor.Feed {
	feed := executor.Feed{}
	for at, name := range []string{"query", "title", "place"} {
		ids, _ := tensor.New(tensor.Int64, 8, 4, 1)
		for i := range ids.Int64s() {
			ids.Int64s()[i] = (step*7 + int64(i*i*(at+1))) % 50
		}
		feed[name] = ids
	}
	clicked, _ := tensor.New(tensor.Float32, 8, 1)
	for i := range clicked.Float32s() {
		clicked.Float32s()[i] = float32(i % 2)
	}
	feed["clicked"] = clicked
	return feed
}
