package executor_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// finished returns the program of a model.
func finished(t testing.TB, m *layers.Model) *program.Program {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// growing is a loop that reads item after item of an array, each with one row more than the one before: item i is the first i+1 rows of x. It sums all of them.
func growing(m *layers.Model) layers.Variable {
	x := layers.Data(m, "x", layers.Dims(2))
	items := layers.CreateArray(m)
	for i := range 4 {
		layers.ArrayWrite(layers.Slice(x, []int{0}, []int64{0}, []int64{int64(i) + 1}), layers.Counter(m, int64(i)), items)
	}
	i, n := layers.Counter(m, 0), layers.ArrayLength(items)
	sum := layers.FillConstant(m, 0, []int64{1})
	more := layers.LessThan(i, n)
	layers.While(more, func() {
		item := layers.ArrayRead(items, i)
		layers.AssignTo(sum, layers.Add(sum, layers.ReduceSum(layers.Square(item))))
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, n))
	})
	return sum
}

func TestLoopOverItemsOfDifferentDims(t *testing.T) {
	m := layers.NewModel()
	sum := growing(m)
	p := finished(t, m)
	x, _ := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)
	exe := executor.New()
	defer exe.Close()
	for range 3 {
		got, err := exe.Run(t.Context(), p, executor.Feed{"x": x}, sum.Name())
		if err != nil {
			t.Fatal(err)
		}
		if want := float32(4*5 + 3*25 + 2*61 + 113); got[0].Float32s()[0] != want {
			t.Errorf("sum %v, want %v", got[0].Float32s()[0], want)
		}
	}
}

// The program survives its file, and a clone for test keeps its blocks.
func TestLoopsInFiles(t *testing.T) {
	m := layers.NewModel()
	sum := growing(m)
	p := finished(t, m)
	path := t.TempDir() + "/p.pb"
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	read, err := program.Load(path, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	inference, err := read.InferenceProgram([]string{"x"}, []string{sum.Name()})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := tensor.FromSlice([]float32{1, 0, 0, 0, 0, 0, 0, 0}, 4, 2)
	exe := executor.New()
	defer exe.Close()
	for _, q := range []*program.Program{read, read.CloneForTest(), inference} {
		got, err := exe.Run(t.Context(), q, executor.Feed{"x": x}, sum.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Float32s()[0] != 4 {
			t.Errorf("sum %v, want 4", got[0].Float32s()[0])
		}
	}
}

func TestBranchesInLoops(t *testing.T) {
	m := layers.NewModel()
	i, n, one := layers.Counter(m, 0), layers.Counter(m, 10), layers.Counter(m, 1)
	small, rest := layers.Counter(m, 0), layers.Counter(m, 0)
	more := layers.LessThan(i, n)
	layers.While(more, func() {
		layers.Switch(m,
			layers.SwitchCase{If: layers.LessThan(i, layers.Counter(m, 3)), Then: func() { layers.AssignTo(small, layers.Sums([]layers.Variable{small, one})) }},
			layers.SwitchCase{Then: func() {
				j := layers.Counter(m, 0)
				again := layers.LessThan(j, i)
				layers.While(again, func() {
					layers.AssignTo(rest, layers.Sums([]layers.Variable{rest, one}))
					layers.Increment(j, 1)
					layers.AssignTo(again, layers.LessThan(j, i))
				})
			}})
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, n))
	})
	exe := executor.New()
	defer exe.Close()
	got, err := exe.Run(t.Context(), finished(t, m), nil, small.Name(), rest.Name())
	if err != nil {
		t.Fatal(err)
	}
	if small, rest := got[0].Int64s()[0], got[1].Int64s()[0]; small != 3 || rest != 3+4+5+6+7+8+9 {
		t.Errorf("%d and %d, want 3 and 42", small, rest)
	}
}

// endless is a loop whose condition stays true. do is what it does.
func endless(m *layers.Model, do func()) layers.Variable {
	x := layers.Counter(m, 0)
	always := layers.LessThan(layers.Counter(m, 0), layers.Counter(m, 1))
	layers.While(always, func() {
		layers.Increment(x, 1)
		do()
	})
	return x
}

func TestLoopsEnd(t *testing.T) {
	m := layers.NewModel()
	x := endless(m, func() {})
	exe := executor.New()
	defer exe.Close()
	_, err := exe.Run(t.Context(), finished(t, m), nil, x.Name())
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "1000000 runs") || !strings.Contains(err.Error(), "control_test.go") {
		t.Errorf("an endless loop: %v", err)
	}
}

func TestLoopsEndWhenTheyAreCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := layers.NewModel()
	x := endless(m, func() {})
	exe := executor.New()
	defer exe.Close()
	cancel()
	if _, err := exe.Run(ctx, finished(t, m), nil, x.Name()); !errors.Is(err, fault.Canceled) {
		t.Errorf("a loop whose context has ended: %v", err)
	}
}

func TestMemoryOfArraysIsBounded(t *testing.T) {
	m := layers.NewModel()
	big := layers.FillConstant(m, 1, []int64{1024, 256})
	items, at := layers.CreateArray(m), layers.Counter(m, 0)
	x := endless(m, func() {
		layers.Increment(at, 1)
		layers.ArrayWrite(big, at, items)
	})
	exe := executor.New(executor.WithMemory(64 << 20))
	defer exe.Close()
	if _, err := exe.Run(t.Context(), finished(t, m), nil, x.Name()); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "array") {
		t.Errorf("an array without end: %v", err)
	}
}

// A loop that has met its dims before allocates nothing: the number of allocations does not depend on how often its block runs.
func TestLoopsAllocateNothing(t *testing.T) {
	allocations := func(times int64) float64 {
		m := layers.NewModel()
		i, n := layers.Counter(m, 0), layers.Counter(m, times)
		x := layers.FillConstant(m, 1, []int64{3, 4})
		items := layers.ArrayWrite(x, i, layers.CreateArray(m))
		more := layers.LessThan(i, n)
		layers.While(more, func() {
			next := layers.Tanh(layers.Scale(layers.ArrayRead(items, i), 2, 0))
			layers.Increment(i, 1)
			layers.ArrayWrite(next, i, items)
			layers.AssignTo(more, layers.LessThan(i, n))
		})
		p, exe := finished(t, m), executor.New()
		defer exe.Close()
		prepared, err := exe.Prepare(t.Context(), p, nil, i.Name())
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if _, err := prepared.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		run()
		return testing.AllocsPerRun(10, run)
	}
	if few, many := allocations(2), allocations(200); few != 0 || many != 0 {
		t.Errorf("%v allocations in 2 runs of a block, %v in 200", few, many)
	}
}

// A layer after one whose rows are known only when it has run is compiled then, for each number of rows. A model with such layers trains: its loss and parameters
// are those of a model that multiplies by a mask instead.
func TestLayersAfterRowsThatAreKnownAtRunTime(t *testing.T) {
	steps := func(chosen bool) []float64 {
		m := layers.NewModel().Seed(5)
		x := layers.Data(m, "x", layers.Dims(3), layers.DType(tensor.Float64))

		cost := layers.Square(layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "w"}), layers.NoBias()))
		keep := layers.GreaterThan(layers.Slice(x, []int{1}, []int64{0}, []int64{1}), layers.FillLike(cost, 0))
		var loss layers.Variable
		if chosen {
			loss = layers.Mean(layers.MaskedSelect(cost, keep))
		} else {
			mask := layers.Cast(keep, tensor.Float64)
			loss = layers.Div(layers.ReduceSum(layers.Mul(cost, mask)), layers.ReduceSum(mask))
		}
		optimizer.SGD(0.1).Minimize(loss)
		p, exe := finished(t, m), executor.New()
		defer exe.Close()
		var all []float64
		for step := range 6 {
			values := make([]float64, 3*(4+step%3))
			for i := range values {
				values[i] = math.Sin(float64(i*7 + step + 1))
			}
			feed, _ := tensor.FromSlice(values, int64(len(values)/3), 3)
			got, err := exe.Run(t.Context(), p, executor.Feed{"x": feed}, loss.Name(), "w")
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, got[0].Float64s()...), got[1].Float64s()...)
		}
		return all
	}
	got, want := steps(true), steps(false)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Fatalf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
}
