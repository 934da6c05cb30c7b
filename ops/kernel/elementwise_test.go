package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

type binary[T any] func(out, x, y []T, pre, n, post int)

var binaryReferences = map[string]func(x, y float64) float64{
	"add": func(x, y float64) float64 { return x + y },
	"sub": func(x, y float64) float64 { return x - y },
	"mul": func(x, y float64) float64 { return x * y },
	"div": func(x, y float64) float64 { return x / y },
	"max": math.Max,
	"min": math.Min,
	"pow": math.Pow,
}

func floatBinaries[T tensor.Float]() map[string]binary[T] {
	return map[string]binary[T]{"add": Add[T], "sub": Sub[T], "mul": Mul[T], "div": Div[T], "max": Max[T], "min": Min[T], "pow": Pow[T]}
}

func drawBroadcast(t *rapid.T) (pre, n, post int) {
	return rapid.IntRange(0, 4).Draw(t, "pre"), rapid.IntRange(0, 9).Draw(t, "n"), rapid.IntRange(0, 9).Draw(t, "post")
}

func testBinaries[T tensor.Float](t *rapid.T) {
	pre, n, post := drawBroadcast(t)
	seed := rapid.Int64().Draw(t, "seed")
	x, y := positive[T](seed, pre*n*post), noise[T](seed+1, n)
	for name, f := range floatBinaries[T]() {
		out := make([]T, len(x))
		f(out, x, y, pre, n, post)
		for i := range out {
			want := binaryReferences[name](float64(x[i]), float64(y[i/post%n]))
			near(t, out[i], want, 1, "%s[%d]", name, i)
		}
		inPlace := slices.Clone(x)
		f(inPlace, inPlace, y, pre, n, post)
		sameBits(t, inPlace, out)
		if pre > 1 { // the last plane alone
			part := make([]T, n*post)
			f(part, x[(pre-1)*n*post:], y, 1, n, post)
			sameBits(t, part, out[(pre-1)*n*post:])
		}
	}
}

// Operands of one shape may be cut anywhere.
func testBinarySlices[T tensor.Float](t *rapid.T) {
	n := rapid.IntRange(0, 40).Draw(t, "n")
	cut := rapid.IntRange(0, n).Draw(t, "cut")
	seed := rapid.Int64().Draw(t, "seed")
	x, y := positive[T](seed, n), noise[T](seed+1, n)
	for _, f := range floatBinaries[T]() {
		whole, part := make([]T, n), make([]T, n-cut)
		f(whole, x, y, 1, n, 1)
		f(part, x[cut:], y[cut:], 1, n-cut, 1)
		sameBits(t, part, whole[cut:])
	}
}

func TestBinaries(t *testing.T) {
	t.Run("float32 slices", func(t *testing.T) { rapid.Check(t, testBinarySlices[float32]) })
	t.Run("float64 slices", func(t *testing.T) { rapid.Check(t, testBinarySlices[float64]) })

	t.Run("float32", func(t *testing.T) { rapid.Check(t, testBinaries[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testBinaries[float64]) })
}

func TestIntegerBinaries(t *testing.T) {
	x, y := []int64{7, -7, 1 << 40, 5}, []int64{2, 2, -3, 0}
	for _, c := range []struct {
		name string
		f    binary[int64]
		want []int64
	}{
		{"add", Add[int64], []int64{9, -5, 1<<40 - 3, 5}},
		{"sub", Sub[int64], []int64{5, -9, 1<<40 + 3, 5}},
		{"mul", Mul[int64], []int64{14, -14, -3 << 40, 0}},
		{"div", Div[int64], []int64{3, -3, (1 << 40) / -3, 0}},
		{"max", Max[int64], []int64{7, 2, 1 << 40, 5}},
		{"min", Min[int64], []int64{2, -7, -3, 0}},
	} {
		out := make([]int64, 4)
		if c.f(out, x, y, 1, 4, 1); !slices.Equal(out, c.want) {
			t.Errorf("%s = %v, want %v", c.name, out, c.want)
		}
	}
}

func TestMaxAndMinKeepNaN(t *testing.T) {
	nan := math.NaN()
	out := make([]float64, 2)
	Max(out, []float64{nan, 1}, []float64{1, nan}, 1, 2, 1)
	nearAll(t, "max", out, []float64{nan, nan})
	Min(out, []float64{nan, 1}, []float64{1, nan}, 1, 2, 1)
	nearAll(t, "min", out, []float64{nan, nan})
}

func TestBinaryGradients(t *testing.T) {
	gradients := map[string]func(dx, dy, x, y, out, dout []float64, pre, n, post int){
		"add": AddGrad[float64], "sub": SubGrad[float64], "mul": MulGrad[float64],
		"div": DivGrad[float64], "max": MaxGrad[float64], "min": MinGrad[float64],
	}
	rapid.Check(t, func(t *rapid.T) {
		pre, n, post := drawBroadcast(t)
		seed := rapid.Int64().Draw(t, "seed")
		x, y := positive[float64](seed, pre*n*post), positive[float64](seed+1, n)
		for i := range x { // keep x off y, the edge of max and min
			x[i] = math.Ceil(x[i]*64) / 64
		}
		for i := range y {
			y[i] = (math.Ceil(y[i]*64) + 0.5) / 64
		}
		dout := noise[float64](seed+2, len(x))
		for name, grad := range gradients {
			out, dx, dy := make([]float64, len(x)), make([]float64, len(x)), make([]float64, n)
			f := func() float64 {
				floatBinaries[float64]()[name](out, x, y, pre, n, post)
				return dot(out, dout)
			}
			f()
			grad(dx, dy, x, y, out, dout, pre, n, post)
			sameGradient(t, name+" dx", dx, gradientOf(x, f))
			sameGradient(t, name+" dy", dy, gradientOf(y, f))

			f()
			inPlace := slices.Clone(dout)
			grad(inPlace, nil, x, y, out, inPlace, pre, n, post)
			sameBits(t, inPlace, dx)
			only := make([]float64, n)
			grad(nil, only, x, y, out, dout, pre, n, post)
			sameBits(t, only, dy)
		}
	})
}

func TestEqualOperandsSendGradientToY(t *testing.T) {
	x, dout, dx, dy := []float32{2}, []float32{3}, make([]float32, 1), make([]float32, 1)
	for _, grad := range []func(dx, dy, x, y, out, dout []float32, pre, n, post int){MaxGrad[float32], MinGrad[float32]} {
		if grad(dx, dy, x, x, nil, dout, 1, 1, 1); dx[0] != 0 || dy[0] != 3 {
			t.Errorf("dx %v dy %v, want 0 and 3", dx, dy)
		}
	}
}

func TestBinariesAllocateNothing(t *testing.T) {
	x, y := positive[float32](1, 60), positive[float32](2, 5)
	out, dx, dy := make([]float32, 60), make([]float32, 60), make([]float32, 5)
	for _, post := range []int{1, 4} {
		noAllocation(t, func() { Add(out, x, y, 12/post, 5, post) })
		noAllocation(t, func() { Pow(out, x, y, 12/post, 5, post) })
		noAllocation(t, func() { MaxGrad(dx, dy, x, y, out, x, 12/post, 5, post) })
		noAllocation(t, func() { DivGrad(dx, dy, x, y, out, x, 12/post, 5, post) })
	}
}
