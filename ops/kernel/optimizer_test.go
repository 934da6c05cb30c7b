package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// An optimizerCase runs a kernel on a parameter and its states, and one element of the reference on float64.
type optimizerCase[T tensor.Float] struct {
	name      string
	states    int
	step      func(param []T, states [][]T, grad []T)
	reference func(param float64, states []float64, grad float64) float64
}

func optimizerCases[T tensor.Float]() []optimizerCase[T] {
	const lr = 0.1
	momentum := func(nesterov bool) func(p float64, s []float64, g float64) float64 {
		return func(p float64, s []float64, g float64) float64 {
			s[0] = 0.9*s[0] + g
			if nesterov {
				return p - lr*(g+0.9*s[0])
			}
			return p - lr*s[0]
		}
	}
	ftrl := func(power float64) func(p float64, s []float64, g float64) float64 {
		return func(p float64, s []float64, g float64) float64 {
			n := s[0] + g*g
			s[1] += g - (math.Pow(n, -power)-math.Pow(s[0], -power))/lr*p
			s[0] = n
			if math.Abs(s[1]) <= 0.2 {
				return 0
			}
			return (math.Copysign(0.2, s[1]) - s[1]) / (math.Pow(n, -power)/lr + 2*0.3)
		}
	}
	return []optimizerCase[T]{
		{"sgd", 0, func(p []T, s [][]T, g []T) { SGD(p, g, lr) },
			func(p float64, s []float64, g float64) float64 { return p - lr*g }},
		{"momentum", 1, func(p []T, s [][]T, g []T) { Momentum(p, s[0], g, lr, 0.9, false) }, momentum(false)},
		{"nesterov", 1, func(p []T, s [][]T, g []T) { Momentum(p, s[0], g, lr, 0.9, true) }, momentum(true)},
		{"adagrad", 1, func(p []T, s [][]T, g []T) { Adagrad(p, s[0], g, lr, 1e-6) },
			func(p float64, s []float64, g float64) float64 {
				s[0] += g * g
				return p - lr*g/(math.Sqrt(s[0])+1e-6)
			}},
		{"decayed_adagrad", 1, func(p []T, s [][]T, g []T) { DecayedAdagrad(p, s[0], g, lr, 0.95, 1e-6) },
			func(p float64, s []float64, g float64) float64 {
				s[0] = 0.95*s[0] + 0.05*g*g
				return p - lr*g/(math.Sqrt(s[0])+1e-6)
			}},
		{"adam", 2, func(p []T, s [][]T, g []T) { Adam(p, s[0], s[1], g, lr, 0.9, 0.99, 0.81, 0.9801, 1e-8) },
			func(p float64, s []float64, g float64) float64 {
				s[0], s[1] = 0.9*s[0]+0.1*g, 0.99*s[1]+0.01*g*g
				return p - lr*math.Sqrt(1-0.9801)/(1-0.81)*s[0]/(math.Sqrt(s[1])+1e-8)
			}},
		{"adamax", 2, func(p []T, s [][]T, g []T) { Adamax(p, s[0], s[1], g, lr, 0.9, 0.99, 0.81, 1e-8) },
			func(p float64, s []float64, g float64) float64 {
				s[0], s[1] = 0.9*s[0]+0.1*g, math.Max(math.Abs(g), 0.99*s[1]+1e-8)
				return p - lr/(1-0.81)*s[0]/s[1]
			}},
		{"adadelta", 2, func(p []T, s [][]T, g []T) { Adadelta(p, s[0], s[1], g, 0.95, 1e-6) },
			func(p float64, s []float64, g float64) float64 {
				s[0] = 0.95*s[0] + 0.05*g*g
				d := -math.Sqrt((s[1]+1e-6)/(s[0]+1e-6)) * g
				s[1] = 0.95*s[1] + 0.05*d*d
				return p + d
			}},
		{"rmsprop", 2, func(p []T, s [][]T, g []T) { RMSProp(p, s[0], s[1], g, lr, 0.9, 1e-3, 0.5) },
			func(p float64, s []float64, g float64) float64 {
				s[0] = 0.9*s[0] + 0.1*g*g
				s[1] = 0.5*s[1] + lr*g/math.Sqrt(s[0]+1e-3)
				return p - s[1]
			}},
		{"rmsprop centered", 3, func(p []T, s [][]T, g []T) { RMSPropCentered(p, s[0], s[1], s[2], g, lr, 0.9, 1, 0.5) },
			func(p float64, s []float64, g float64) float64 {
				s[0], s[1] = 0.9*s[0]+0.1*g*g, 0.9*s[1]+0.1*g
				s[2] = 0.5*s[2] + lr*g/math.Sqrt(s[0]-s[1]*s[1]+1)
				return p - s[2]
			}},
		{"ftrl", 2, func(p []T, s [][]T, g []T) { FTRL(p, s[0], s[1], g, lr, 0.2, 0.3, -0.5) }, ftrl(-0.5)},
		{"ftrl power", 2, func(p []T, s [][]T, g []T) { FTRL(p, s[0], s[1], g, lr, 0.2, 0.3, -0.7) }, ftrl(-0.7)},
	}
}

func testOptimizers[T tensor.Float](t *rapid.T) {
	n := rapid.IntRange(0, 20).Draw(t, "n")
	cut := rapid.IntRange(0, n).Draw(t, "cut")
	seed := rapid.Int64().Draw(t, "seed")
	grad := noise[T](seed, n)
	for _, c := range optimizerCases[T]() {
		param := noise[T](seed+1, n)
		states, first, second := make([][]T, c.states), make([][]T, c.states), make([][]T, c.states)
		for i := range states {
			states[i] = positive[T](seed+2+int64(i), n)
			whole := slices.Clone(states[i])
			first[i], second[i] = whole[:cut], whole[cut:]
		}
		sliced := slices.Clone(param)
		c.step(sliced[:cut], first, grad[:cut])
		c.step(sliced[cut:], second, grad[cut:])

		wantParam, wantState := make([]float64, n), make([][]float64, n)
		for i := range n {
			for _, s := range states {
				wantState[i] = append(wantState[i], float64(s[i]))
			}
			wantParam[i] = c.reference(float64(param[i]), wantState[i], float64(grad[i]))
		}
		c.step(param, states, grad)
		sameBits(t, sliced, param)
		for i := range n {
			near(t, param[i], wantParam[i], 8, "%s param[%d]", c.name, i)
			for j := range states {
				near(t, states[j][i], wantState[i][j], 8, "%s state %d[%d]", c.name, j, i)
			}
		}
		for j := range states {
			sameBits(t, append(slices.Clone(first[j]), second[j]...), states[j])
		}
	}
}

func TestOptimizers(t *testing.T) {
	t.Run("float32", func(t *testing.T) { rapid.Check(t, testOptimizers[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testOptimizers[float64]) })
}

func TestOptimizersAllocateNothing(t *testing.T) {
	for _, c := range optimizerCases[float32]() {
		param, grad, states := make([]float32, 9), noise[float32](1, 9), make([][]float32, c.states)
		for i := range states {
			states[i] = make([]float32, 9)
		}
		noAllocation(t, func() { c.step(param, states, grad) })
	}
}

func BenchmarkOptimizer(b *testing.B) {
	const n = 1_000_000
	for _, c := range optimizerCases[float32]() {
		param, grad, states := noise[float32](1, n), noise[float32](2, n), make([][]float32, c.states)
		for i := range states {
			states[i] = make([]float32, n)
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				c.step(param, states, grad)
			}
		})
	}
}
