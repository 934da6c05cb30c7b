package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

type unaryCase[T tensor.Float] struct {
	name      string
	forward   func(out, x []T)
	grad      func(dx, x, out, dout []T)
	reads     string // what grad reads: x, out or nothing
	reference func(float64) float64
	positive  bool // domain x > 0
}

func unaryCases[T tensor.Float]() []unaryCase[T] {
	return []unaryCase[T]{
		{"relu", Relu[T], ReluGrad[T], "out", func(x float64) float64 { return math.Max(x, 0) }, false},
		{"sigmoid", Sigmoid[T], SigmoidGrad[T], "out", func(x float64) float64 { return (1 + math.Tanh(x/2)) / 2 }, false},
		{"tanh", Tanh[T], TanhGrad[T], "out", math.Tanh, false},
		{"exp", Exp[T], ExpGrad[T], "out", math.Exp, false},
		{"log", Log[T], LogGrad[T], "x", math.Log, true},
		{"sqrt", Sqrt[T], SqrtGrad[T], "out", math.Sqrt, true},
		{"square", Square[T], SquareGrad[T], "x", func(x float64) float64 { return x * x }, false},
		{"abs", Abs[T], AbsGrad[T], "x", math.Abs, false},
		{"sign", Sign[T], ZeroGrad[T], "", func(x float64) float64 { return math.Copysign(1, x) }, false},
		{"floor", Floor[T], ZeroGrad[T], "", math.Floor, false},
		{"ceil", Ceil[T], ZeroGrad[T], "", math.Ceil, false},
		{"softsign", Softsign[T], SoftsignGrad[T], "x", func(x float64) float64 { return x / (1 + math.Abs(x)) }, false},
		{"reciprocal", Reciprocal[T], ReciprocalGrad[T], "out", func(x float64) float64 { return 1 / x }, true},
		{"cos", Cos[T], CosGrad[T], "x", math.Cos, false},
	}
}

// away returns values of both signs that are no integers, where every unary function is smooth.
func away[T tensor.Float](seed int64, n int, onlyPositive bool) []T {
	x := positive[T](seed, n)
	for i := range x {
		x[i] = x[i]*0.7 + 0.05
		if i%2 == 1 && !onlyPositive {
			x[i] = -x[i]
		}
	}
	return x
}

func testUnaries[T tensor.Float](t *rapid.T) {
	n := rapid.IntRange(0, 40).Draw(t, "n")
	cut := rapid.IntRange(0, n).Draw(t, "cut")
	seed := rapid.Int64().Draw(t, "seed")
	dout := noise[T](seed+1, n)
	for _, c := range unaryCases[T]() {
		x := away[T](seed, n, c.positive)
		out, dx := make([]T, n), make([]T, n)
		c.forward(out, x)
		for i := range out {
			near(t, out[i], c.reference(float64(x[i])), 1, "%s(%v)", c.name, x[i])
		}
		readX, readOut := x, out
		switch c.reads {
		case "x":
			readOut = nil
		case "out":
			readX = nil
		default:
			readX, readOut = nil, nil
		}
		c.grad(dx, readX, readOut, dout)
		const step = 1e-5
		for i := range dx {
			v := float64(x[i])
			slope := (c.reference(v+step) - c.reference(v-step)) / (2 * step)
			if want := float64(dout[i]) * slope; !(math.Abs(float64(dx[i])-want) <= 2e-5*(1+math.Abs(want))) {
				t.Fatalf("%s'(%v)*%v = %v, want %v", c.name, v, dout[i], dx[i], want)
			}
		}

		partOut, partDx := make([]T, n-cut), make([]T, n-cut)
		c.forward(partOut, x[cut:])
		sameBits(t, partOut, out[cut:])
		c.grad(partDx, x[cut:], out[cut:], dout[cut:])
		sameBits(t, partDx, dx[cut:])

		inPlace := slices.Clone(x)
		c.forward(inPlace, inPlace)
		sameBits(t, inPlace, out)
		inPlace = slices.Clone(dout)
		c.grad(inPlace, x, out, inPlace)
		sameBits(t, inPlace, dx)
	}
}

func TestUnaries(t *testing.T) {
	t.Run("float32", func(t *testing.T) { rapid.Check(t, testUnaries[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testUnaries[float64]) })
}

func TestUnarySpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name string
		f    func(out, x []float32)
		x    []float64
		want []float64
	}{
		{"relu", Relu[float32], []float64{-inf, inf, nan, 0}, []float64{0, inf, nan, 0}},
		{"sigmoid", Sigmoid[float32], []float64{-inf, -1e30, 0, 1e30, inf, nan}, []float64{0, 0, 0.5, 1, 1, nan}},
		{"tanh", Tanh[float32], []float64{-inf, 1e30}, []float64{-1, 1}},
		{"log", Log[float32], []float64{0, -1, inf}, []float64{-inf, nan, inf}},
		{"sqrt", Sqrt[float32], []float64{0, -1, inf}, []float64{0, nan, inf}},
		{"sign", Sign[float32], []float64{0, -inf, inf, nan}, []float64{0, -1, 1, 0}},
		{"reciprocal", Reciprocal[float32], []float64{0, inf}, []float64{inf, 0}},
	} {
		out := make([]float32, len(c.x))
		c.f(out, convert[float32](c.x))
		nearAll(t, c.name, out, c.want)
	}
	// Far below zero the sigmoid keeps its relative precision.
	tiny := make([]float64, 1)
	Sigmoid(tiny, []float64{-700})
	if want := math.Exp(-700); math.Abs(tiny[0]/want-1) > 1e-14 {
		t.Errorf("sigmoid(-700) = %v, want %v", tiny[0], want)
	}
	dx := make([]float64, 1)
	if ReluGrad(dx, nil, []float64{0}, []float64{5}); dx[0] != 0 {
		t.Errorf("relu gradient at 0 is %v, want 0", dx[0])
	}
}

func BenchmarkUnary(b *testing.B) {
	const n = 100_000
	x, out, dx := away[float32](1, n, false), make([]float32, n), make([]float32, n)
	for _, c := range unaryCases[float32]() {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				c.forward(out, x)
			}
		})
		b.Run(c.name+" gradient", func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				c.grad(dx, x, out, x)
			}
		})
	}
}

func TestScale(t *testing.T) {
	out := make([]float32, 2)
	Scale(out, []float32{1, -2}, 3, 0.5, true)
	nearAll(t, "scale*x+bias", out, []float64{3.5, -5.5})
	Scale(out, []float32{1, -2}, 3, 0.5, false)
	nearAll(t, "scale*(x+bias)", out, []float64{4.5, -4.5})
	ints := make([]int64, 2)
	if Scale(ints, []int64{4, -2}, 3, 1, true); !slices.Equal(ints, []int64{13, -5}) {
		t.Errorf("integer scale is %v", ints)
	}
}

func TestClip(t *testing.T) {
	x := []float64{-3, -1, 0.5, 1, 3, math.NaN()}
	out, dx := make([]float64, 6), make([]float64, 6)
	Clip(out, x, -1, 1)
	nearAll(t, "clip", out, []float64{-1, -1, 0.5, 1, 1, math.NaN()})
	ClipGrad(dx, x, []float64{1, 2, 3, 4, 5, 6}, -1, 1)
	nearAll(t, "clip gradient", dx, []float64{0, 0, 3, 0, 0, 0})
}
