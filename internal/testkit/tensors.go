package testkit

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Classes bounds the whole numbers of a Batch: labels and ids are below it.
const Classes = 3

// Batch returns rows of random values for every variable that p is fed with, or sequences where it declares LoD levels. Equal seeds give equal batches.
func Batch(t TB, p *program.Program, seed uint64, rows int64) executor.Feed {
	t.Helper()
	feed := executor.Feed{}
	for _, v := range p.Global().Vars() {
		if v.NeedCheckFeed {
			lod, n := Sequences(seed, rows, v.LoDLevel)
			feed[v.Name] = Random(t, v.DType, seed+uint64(len(feed)), append([]int64{n}, v.Dims[1:]...)...)
			feed[v.Name].SetLoD(lod)
		}
	}
	return feed
}

// Sequences returns the LoD of so many sequences of the outermost level, and their rows. Sequences of equal seeds have equal lengths, some of them 0.
func Sequences(seed uint64, sequences int64, levels int) (lod [][]int64, rows int64) {
	random := rand.New(rand.NewPCG(seed, 2))
	rows = sequences
	for range levels {
		level := []int64{0}
		for range rows {
			level = append(level, level[len(level)-1]+random.Int64N(5))
		}
		lod, rows = append(lod, level), level[len(level)-1]
	}
	return lod, rows
}

// Random returns a tensor of normal numbers, or of whole numbers below Classes.
func Random(t TB, dtype tensor.DType, seed uint64, dims ...int64) *tensor.Tensor {
	t.Helper()
	value, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range value.Len() {
		switch dtype {
		case tensor.Int64:
			value.Int64s()[i] = random.Int64N(Classes)
		case tensor.Float64:
			value.Float64s()[i] = random.NormFloat64()
		default:
			value.Float32s()[i] = float32(random.NormFloat64())
		}
	}
	return value
}

// Same reports whether two tensors have the same type, dims and bits.
func Same(a, b *tensor.Tensor) bool {
	return a != nil && b != nil && bytes.Equal(tensor.AppendStream(nil, a), tensor.AppendStream(nil, b))
}

// Difference returns an error that names the first variable, in the order of names, whose bits differ or that only one side has.
func Difference(got, want map[string]*tensor.Tensor) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !Same(got[name], want[name]) {
			return fmt.Errorf("%s:\n got %s\nwant %s", name, Show(got[name]), Show(want[name]))
		}
	}
	for name := range got {
		if want[name] == nil {
			return fmt.Errorf("%s: not wanted", name)
		}
	}
	return nil
}

// Show renders the type, the dims and the first elements of a tensor.
func Show(t *tensor.Tensor) string {
	switch {
	case t == nil:
		return "nothing"
	case t.DType() == tensor.Float32:
		return fmt.Sprint(t, t.Float32s()[:min(8, t.Len())])
	case t.DType() == tensor.Int64:
		return fmt.Sprint(t, t.Int64s()[:min(8, t.Len())])
	}
	return t.String()
}

// Loss returns the only element of a fetched loss.
func Loss(t TB, loss *tensor.Tensor) float32 {
	t.Helper()
	if loss == nil || loss.Len() != 1 {
		t.Fatalf("a loss of %v", loss)
	}
	return loss.Float32s()[0]
}

// Persistables returns the persistable variables of p that a scope holds.
func Persistables(scope *executor.Scope, p *program.Program) map[string]*tensor.Tensor {
	values := map[string]*tensor.Tensor{}
	for _, name := range executor.Persistables(p) {
		if v, ok := scope.Find(name); ok {
			values[name] = v
		}
	}
	return values
}

// Saved returns the persistable variables of p that a job has saved, read as a local run would read them.
func Saved(t TB, dir string, p *program.Program) map[string]*tensor.Tensor {
	t.Helper()
	scope := executor.NewScope()
	if err := executor.LoadPersistables(scope, dir, p); err != nil {
		t.Fatal(err)
	}
	return Persistables(scope, p)
}
