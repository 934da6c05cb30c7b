package kernel

import (
	"math"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// drawReduction draws dims, the axes to reduce, and the output place of every input element.
func drawReduction(t *rapid.T) (dims []int, reduced []bool, places []int) {
	dims = rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5).Draw(t, "dims")
	reduced = rapid.SliceOfN(rapid.Bool(), len(dims), len(dims)).Draw(t, "reduced")
	count := 1
	for _, d := range dims {
		count *= d
	}
	places = make([]int, count)
	for i := range places {
		rest, stride := i, 1
		for a := len(dims) - 1; a >= 0; a-- {
			if !reduced[a] {
				places[i] += rest % dims[a] * stride
				stride *= dims[a]
			}
			rest /= dims[a]
		}
	}
	return dims, reduced, places
}

func testReduce[T tensor.Float](t *rapid.T) {
	dims, reduced, places := drawReduction(t)
	p := NewReducePlan(dims, reduced)
	if p.InCount() != len(places) {
		t.Fatalf("the plan reads %d elements, want %d", p.InCount(), len(places))
	}
	x := noise[T](rapid.Int64().Draw(t, "seed"), len(places))
	sums, counts, tops := make([]float64, p.OutCount()), make([]float64, p.OutCount()), make([]float64, p.OutCount())
	for i := range tops {
		tops[i] = math.Inf(-1)
	}
	for i, o := range places {
		sums[o] += float64(x[i])
		counts[o]++
		tops[o] = math.Max(tops[o], float64(x[i]))
	}
	n, _ := p.Iterations()
	out := inParts(t, n, p.OutCount(), func(out []T, from, to int) { ReduceSum(&p, out, x, from, to) })
	nearAll(t, "sum", out, sums)
	out = inParts(t, n, p.OutCount(), func(out []T, from, to int) { ReduceMean(&p, out, x, from, to) })
	for o := range out {
		near(t, out[o], sums[o]/counts[o], 1, "mean[%d]", o)
	}
	out = inParts(t, n, p.OutCount(), func(out []T, from, to int) { ReduceMin(&p, out, x, from, to) })
	for i, o := range places {
		if !(out[o] <= x[i]) {
			t.Fatalf("the smallest of %d is %g, but there is %g", o, out[o], x[i])
		}
	}
	out = inParts(t, n, p.OutCount(), func(out []T, from, to int) { ReduceMax(&p, out, x, from, to) })
	nearAll(t, "max", out, tops)

	dout := noise[T](5, len(out))
	n, _ = p.GradIterations()
	dsum := inParts(t, n, len(x), func(dx []T, from, to int) { ReduceSumGrad(&p, dx, dout, from, to) })
	dmean := inParts(t, n, len(x), func(dx []T, from, to int) { ReduceMeanGrad(&p, dx, dout, from, to) })
	dmax := inParts(t, n, len(x), func(dx []T, from, to int) { ReduceMaxGrad(&p, dx, x, out, dout, from, to) })
	for i, o := range places {
		g := float64(dout[o])
		near(t, dsum[i], g, 1, "sum gradient[%d]", i)
		near(t, dmean[i], g/counts[o], 1, "mean gradient[%d]", i)
		if float64(x[i]) != tops[o] {
			g = 0
		}
		near(t, dmax[i], g, 1, "max gradient[%d]", i)
	}
}

// inParts returns the elements that f writes in n iterations, and checks that they do not depend on how these are cut.
func inParts[T tensor.Float](t *rapid.T, n, elements int, f func(out []T, from, to int)) []T {
	whole, parts := make([]T, elements), make([]T, elements)
	f(whole, 0, n)
	cut := rapid.IntRange(0, n).Draw(t, "cut")
	f(parts, cut, n)
	f(parts, 0, cut)
	sameBits(t, parts, whole)
	return whole
}

func TestReduce(t *testing.T) {
	t.Run("float32", func(t *testing.T) { rapid.Check(t, testReduce[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testReduce[float64]) })
}

// A slice along a kept axis, even of extent 1, sums in the same order as the whole.
func TestReduceOfSliceEqualsSliceOfReduce(t *testing.T) {
	const a, kept, b = 9, 4, 50
	x := noise[float32](1, a*kept*b)
	whole := NewReducePlan([]int{a, kept, b}, []bool{true, false, true})
	out := make([]float32, kept)
	ReduceSum(&whole, out, x, 0, 1)
	part := NewReducePlan([]int{a, 1, b}, []bool{true, false, true})
	slice, one := make([]float32, a*b), make([]float32, 1)
	for k := range kept {
		CopyStrided(slice, 0, b, x, k*b, kept*b, a, b)
		ReduceSum(&part, one, slice, 0, 1)
		sameBits(t, one, out[k:k+1])
	}
}

func TestReduceMaxKeepsNaN(t *testing.T) {
	p := NewReducePlan([]int{2, 2}, []bool{true, false})
	out := make([]float64, 2)
	ReduceMax(&p, out, []float64{1, math.NaN(), 2, 5}, 0, 2)
	nearAll(t, "max", out, []float64{2, math.NaN()})
}

func TestPlansAllocateNothing(t *testing.T) {
	x, out := noise[float32](1, 24), make([]float32, 24)
	reduce := NewReducePlan([]int{2, 3, 4}, []bool{false, true, false})
	transpose := NewTransposePlan([]int{2, 3, 4}, []int{2, 0, 1})
	noAllocation(t, func() { ReduceSum(&reduce, out, x, 0, 2) })
	noAllocation(t, func() { ReduceMax(&reduce, out, x, 0, 2) })
	noAllocation(t, func() { Transpose(&transpose, out, x, 0, 4) })
}

func TestReduceMin(t *testing.T) {
	nan := math.NaN()
	x := []float64{3, 1, 2, -1, 5, nan}
	rows, columns := NewReducePlan([]int{2, 3}, []bool{false, true}), NewReducePlan([]int{2, 3}, []bool{true, false})
	out := make([]float64, 2)
	ReduceMin(&rows, out, x, 0, 2)
	nearAll(t, "rows", out, []float64{1, nan})
	out = make([]float64, 3)
	ReduceMin(&columns, out, x, 0, 3)
	nearAll(t, "columns", out, []float64{-1, 1, nan})
	nothing := NewReducePlan([]int{0}, []bool{true})
	ReduceMin(&nothing, out[:1], nil, 0, 1)
	if !math.IsInf(out[0], 1) {
		t.Errorf("the smallest of nothing is %v", out[0])
	}
}
