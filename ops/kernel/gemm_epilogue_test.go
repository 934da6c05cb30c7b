package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// drawEpilogue draws an epilogue of a product. Its bias has a guard and contains special values.
func drawEpilogue[T tensor.Float](t *rapid.T, g *guards, p *matrixProduct[T]) *Epilogue[T] {
	e := &Epilogue[T]{ByRow: rapid.Bool().Draw(t, "by row")}
	if rapid.IntRange(0, 3).Draw(t, "bias") > 0 {
		length := p.n
		if e.ByRow {
			length = p.m
		}
		e.Bias = guarded(g, 3, noise[T](rapid.Int64().Draw(t, "seed of bias"), length))
		special := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN()})
		e.Bias[rapid.IntRange(0, length-1).Draw(t, "place")] = T(special.Draw(t, "special"))
	}
	activations := map[string]func(out, x []T){"": nil, "relu": Relu[T], "sigmoid": Sigmoid[T], "tanh": Tanh[T]}
	e.Activation = activations[rapid.SampledFrom([]string{"", "relu", "sigmoid", "tanh"}).Draw(t, "activation")]
	if rapid.Bool().Draw(t, "term") {
		e.Term = guarded(g, 4, noise[T](rapid.Int64().Draw(t, "seed of term"), len(p.c)))
		special := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1)})
		e.Term[rapid.IntRange(0, len(p.c)-1).Draw(t, "place of term")] = T(special.Draw(t, "special term"))
	}
	return e
}

// An epilogue gives the bits of the product, then the addition, then the function, and leaves the gaps between rows as they are.
func testGemmEpilogue[T tensor.Float](t *rapid.T, g *guards) {
	p := drawProduct[T](t, g)
	e := drawEpilogue[T](t, g, &p)
	p.alpha = T(rapid.SampledFrom([]float64{1, 1, -0.5, 0}).Draw(t, "factor"))
	before := slices.Clone(p.c)
	workspace := make([]T, GemmWorkspace(p.m, p.n, p.k))
	want := p.compute(workspace)
	for i := range p.m {
		row := want[i*p.ldc:][:p.n]
		switch {
		case e.Bias == nil:
		case e.ByRow:
			Add(row, row, e.Bias[i:i+1], 1, 1, p.n)
		default:
			Add(row, row, e.Bias, 1, p.n, 1)
		}
		if e.Activation != nil {
			e.Activation(row, row)
		}
		if e.Term != nil {
			Accumulate(row, e.Term[i*p.ldc:][:p.n])
		}
	}
	copy(p.c, before)
	GemmEpilogue(p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc, *e, workspace)
	sameBits(t, p.c, want)
}

func TestEpiloguesAreWhatFollows(t *testing.T) {
	g := newGuards(t, 5)
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmEpilogue[float32](t, g) }) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmEpilogue[float64](t, g) }) })
	})
}

// Products of several blocks of rows, of columns and of k, copied and read in place, finish each element once.
func TestEpiloguesOfLargeProducts(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, transA := range []bool{false, true} {
			for _, gap := range []int{0, 3} {
				const m, n, k = vectorRows + 128, 520, 300
				a, b, bias := noise[float32](1, m*k), noise[float32](2, k*n), noise[float32](3, n)
				lda := k
				if transA {
					lda = m // falls into few cache sets
				}
				got, want := make([]float32, m*(n+gap)), make([]float32, m*(n+gap))
				workspace := make([]float32, GemmWorkspace(m, n, k))
				Gemm(transA, false, m, n, k, 1, a, lda, b, n, 0, want, n+gap, workspace)
				for i := range m {
					row := want[i*(n+gap):][:n]
					Add(row, row, bias, 1, n, 1)
					Tanh(row, row)
				}
				e := Epilogue[float32]{Bias: bias, Activation: Tanh[float32]}
				GemmEpilogue(transA, false, m, n, k, 1, a, lda, b, n, 0, got, n+gap, e, workspace)
				sameBits(t, got, want)
			}
		}
	})
}

func TestEpiloguesAllocateNothing(t *testing.T) {
	const m, n, k = 70, 3, 9
	a, b, c, bias := noise[float32](1, m*k), noise[float32](2, k*n), make([]float32, m*n), noise[float32](3, n)
	workspace := make([]float32, GemmWorkspace(m, n, k))
	noAllocation(t, func() {
		e := Epilogue[float32]{Bias: bias, Activation: Relu[float32]}
		GemmEpilogue(false, false, m, n, k, 1, a, k, b, n, 0, c, n, e, workspace)
	})
}
