package export

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Model is a program for inference with its parameters.
type Model struct {
	Program *program.Program
	Value   func(name string) (*tensor.Tensor, error)
}

// Difference runs two models with the same inputs and results on a feed, and returns by how much their results differ at most, as a part of the largest number of
// that result: 1e-6 are the last digits of float32. Results that are no floats must be equal, or the difference is 1. NaN differs from all but NaN.
func Difference(ctx context.Context, a, b Model, feed executor.Feed) (most float64, err error) {
	names := a.Program.Targets()
	got, err := runWith(ctx, a.Program, a.Value, feed, names)
	if err != nil {
		return 0, err
	}
	want, err := runWith(ctx, b.Program, b.Value, feed, names)
	if err != nil {
		return 0, err
	}
	for i := range names {
		most = max(most, differenceOf(got[i], want[i]))
	}
	return most, nil
}

func differenceOf(a, b *tensor.Tensor) float64 {
	if a.DType() != b.DType() || a.Len() != b.Len() {
		return 1
	}
	switch a.DType() {
	case tensor.Float32:
		return distance(a.Float32s(), b.Float32s())
	case tensor.Float64:
		return distance(a.Float64s(), b.Float64s())
	}
	if !bytes.Equal(tensor.AppendStream(nil, a), tensor.AppendStream(nil, b)) {
		return 1
	}
	return 0
}

// distance is the largest difference as a part of the largest number.
func distance[F float32 | float64](a, b []F) float64 {
	size, most := 0.0, 0.0
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		switch {
		case x == y || math.IsNaN(x) && math.IsNaN(y):
		case math.IsNaN(x-y) || math.IsInf(x-y, 0):
			return 1
		default:
			most = max(most, math.Abs(x-y))
		}
		if !math.IsInf(y, 0) && !math.IsNaN(y) {
			size = max(size, math.Abs(y))
		}
	}
	if most == 0 {
		return 0
	}
	return min(most/max(size, math.SmallestNonzeroFloat32), 1)
}

// runWith runs a program once with parameters.
func runWith(ctx context.Context, p *program.Program, value func(string) (*tensor.Tensor, error), feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	exe := executor.New()
	defer exe.Close()
	for _, name := range executor.Persistables(p) {
		t, err := value(name)
		if err == nil {
			err = exe.Scope().Set(name, t)
		}
		if err != nil {
			return nil, err
		}
	}
	return exe.Run(ctx, p, feed, fetch...)
}

// sampleRows is how many rows Samples makes.
const sampleRows = 8

// Samples makes up rows for a program for inference: floats of a normal distribution, and integers of 0 and 1, which are numbers of rows of nearly every table. It
// refuses inputs of which only the user knows what they may be: sequences, and those with open extents beside that of rows.
func Samples(p *program.Program) (executor.Feed, error) {
	feed := executor.Feed{}
	draw := rand.New(rand.NewPCG(1, 1))
	for _, name := range p.Feeds() {
		v, _ := p.Global().Var(name)
		dims := append([]int64(nil), v.Dims...)
		if len(dims) > 0 && dims[0] < 0 {
			dims[0] = sampleRows
		}
		open := false
		for _, d := range dims {
			open = open || d < 0
		}
		if v.LoDLevel > 0 || open {
			return nil, fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("an input of dims %v with %d LoD levels", v.Dims, v.LoDLevel), fault.Want("one whose rows all have the same dims"))
		}
		t, err := tensor.New(v.DType, dims...)
		if err != nil {
			return nil, err
		}
		for i := range t.Len() {
			switch v.DType {
			case tensor.Float32:
				t.Float32s()[i] = float32(draw.NormFloat64())
			case tensor.Float64:
				t.Float64s()[i] = draw.NormFloat64()
			case tensor.Int64:
				t.Int64s()[i] = draw.Int64N(2)
			case tensor.Int32:
				t.Int32s()[i] = draw.Int32N(2)
			}
		}
		feed[name] = t
	}
	return feed, nil
}
