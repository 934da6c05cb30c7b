package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// elementLoops are the functions that compute every element from those at its place, in the same bits with and without vector
// instructions. The arrays of a call are of one length; any may be written. p holds numbers between 0.1 and 1.1.
var elementLoops = []struct {
	name   string
	arrays int
	run    func(x [][]float32, p []float32)
}{
	{"add", 3, func(x [][]float32, p []float32) { Add(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"sub", 3, func(x [][]float32, p []float32) { Sub(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"mul", 3, func(x [][]float32, p []float32) { Mul(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"div", 3, func(x [][]float32, p []float32) { Div(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"max", 3, func(x [][]float32, p []float32) { Max(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"min", 3, func(x [][]float32, p []float32) { Min(x[0], x[1], x[2], 1, len(x[0]), 1) }},
	{"add a number", 2, func(x [][]float32, p []float32) { Add(x[0], x[1], p, 1, 1, len(x[0])) }},
	{"sub a number", 2, func(x [][]float32, p []float32) { Sub(x[0], x[1], p, 1, 1, len(x[0])) }},
	{"mul a number", 2, func(x [][]float32, p []float32) { Mul(x[0], x[1], p, 1, 1, len(x[0])) }},
	{"div a number", 2, func(x [][]float32, p []float32) { Div(x[0], x[1], p, len(x[0]), 1, 1) }},
	{"max a number", 2, func(x [][]float32, p []float32) { Max(x[0], x[1], p, len(x[0]), 1, 1) }},
	{"min a number", 2, func(x [][]float32, p []float32) { Min(x[0], x[1], p, len(x[0]), 1, 1) }},
	{"mul in place", 1, func(x [][]float32, p []float32) { Mul(x[0], x[0], x[0], 1, len(x[0]), 1) }},
	{"sum products", 3, func(x [][]float32, p []float32) { mulAdd(x[0], x[1], x[2]) }},
	{"accumulate", 2, func(x [][]float32, p []float32) { Accumulate(x[0], x[1]) }},
	{"axpy", 2, func(x [][]float32, p []float32) { Axpy(x[0], x[1], p[0]) }},
	{"scale, bias", 2, func(x [][]float32, p []float32) { Scale(x[0], x[1], p[0], p[1], true) }},
	{"bias, scale", 2, func(x [][]float32, p []float32) { Scale(x[0], x[1], p[0], p[1], false) }},
	{"batch norm", 2, func(x [][]float32, p []float32) {
		BatchNormInfer(x[0], x[1], p[:1], p[1:2], p[2:3], p[3:4], 1, 1, len(x[0]), 0, 1, 1e-5)
	}},
	{"batch norm gradient", 3, func(x [][]float32, p []float32) { normaliseGrad(x[0], x[1], x[2], p[0], p[1], p[2], p[3], p[1]) }},
	{"relu", 2, func(x [][]float32, p []float32) { Relu(x[0], x[1]) }},
	{"relu gradient", 3, func(x [][]float32, p []float32) { ReluGrad(x[0], nil, x[1], x[2]) }},
	{"sigmoid gradient", 3, func(x [][]float32, p []float32) { SigmoidGrad(x[0], nil, x[1], x[2]) }},
	{"tanh gradient", 3, func(x [][]float32, p []float32) { TanhGrad(x[0], nil, x[1], x[2]) }},
	{"square", 2, func(x [][]float32, p []float32) { Square(x[0], x[1]) }},
	{"square gradient", 3, func(x [][]float32, p []float32) { SquareGrad(x[0], x[1], nil, x[2]) }},
	{"softmax gradient", 3, func(x [][]float32, p []float32) { SoftmaxGrad(x[0], x[1], x[2], 1, len(x[0])) }},
	{"sgd", 2, func(x [][]float32, p []float32) { SGD(x[0], x[1], p[0]) }},
	{"momentum", 3, func(x [][]float32, p []float32) { Momentum(x[0], x[1], x[2], p[0], p[1], false) }},
	{"nesterov", 3, func(x [][]float32, p []float32) { Momentum(x[0], x[1], x[2], p[0], p[1], true) }},
	{"adagrad", 3, func(x [][]float32, p []float32) { Adagrad(x[0], x[1], x[2], p[0], p[1]) }},
	{"adam", 4, func(x [][]float32, p []float32) { Adam(x[0], x[1], x[2], x[3], p[0], 0.9, 0.99, 0.81, 0.98, 1e-8) }},
}

// specials are the numbers that arithmetic treats apart.
var specials = []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
	1e-42, -1e-45, math.MaxFloat32, -math.MaxFloat32}

// drawSpecial returns n numbers, most of them ordinary.
func drawSpecial(t *rapid.T, n int) []float32 {
	x := noise[float32](rapid.Int64().Draw(t, "seed"), n)
	for range rapid.IntRange(0, n/2).Draw(t, "number of specials") {
		x[rapid.IntRange(0, n-1).Draw(t, "place")] = rapid.SampledFrom(specials).Draw(t, "special")
	}
	return x
}

// Arrays lie between pages that may not be touched; with and without vector instructions, whole and cut in two, the
// results are the same bits.
func TestElementLoops(t *testing.T) {
	g := newGuards(t, 4)
	for _, loop := range elementLoops {
		t.Run(loop.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(0, 100).Draw(t, "n")
				p := positive[float32](rapid.Int64().Draw(t, "seed of numbers"), 4)
				arrays, portable, cut := make([][]float32, loop.arrays), make([][]float32, loop.arrays), make([][]float32, loop.arrays)
				for i := range arrays {
					x := drawSpecial(t, n)
					arrays[i], portable[i], cut[i] = guarded(g, i, x), slices.Clone(x), slices.Clone(x)
				}
				loop.run(arrays, p)
				restore := simd.Use(simd.None)
				loop.run(portable, p)
				restore()
				for i := range arrays {
					sameBits(t, arrays[i], portable[i])
				}
				if loop.name == "softmax gradient" {
					return // its element depends on its row
				}
				at := rapid.IntRange(0, n).Draw(t, "cut")
				for _, ends := range [][2]int{{0, at}, {at, n}} {
					part := make([][]float32, len(cut))
					for i := range cut {
						part[i] = cut[i][ends[0]:ends[1]]
					}
					loop.run(part, p)
				}
				for i := range arrays {
					sameBits(t, cut[i], portable[i])
				}
			})
		})
	}
}

// Sums and maxima over contiguous memory agree with portable code, in every bit.
func TestReductionLoops(t *testing.T) {
	g := newGuards(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 100).Draw(t, "n")
		x, y := guarded(g, 0, drawSpecial(t, n)), guarded(g, 1, drawSpecial(t, n))
		center := float64(rapid.SampledFrom([]float32{0, 0.3, float32(math.Inf(1))}).Draw(t, "center"))
		all := func() []float64 {
			out := []float64{sum(x), sumProduct(x, y), sumSquaredDeviation(x, center), sumCentredProduct(x, y, center)}
			if n > 0 {
				out = append(out, float64(maxOf(x)))
			}
			return out
		}
		got := all()
		defer simd.Use(simd.None)()
		sameBits(t, got, all())
	})
}

// Softmax keeps to its row and its definition at every level.
func TestSoftmaxRows(t *testing.T) {
	g := newGuards(t, 2)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			classes := rapid.IntRange(1, 60).Draw(t, "classes")
			x := guarded(g, 0, noise[float32](rapid.Int64().Draw(t, "seed"), classes))
			out := guarded(g, 1, make([]float32, classes))
			Softmax(out, x, 1, classes)
			nearAll(t, "softmax", out, softmaxReference(convert[float64](x), 1, classes))
		})
		for _, special := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			row := positive[float32](1, 20)
			row[13] = special
			Softmax(row, row, 1, 20)
			for i, v := range row {
				if v == v {
					t.Errorf("a row with %v has %v at %d", special, v, i)
				}
			}
		}
	})
}
