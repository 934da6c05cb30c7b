package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// A matrixProduct is one drawn call of Gemm, with its operands between guards.
type matrixProduct[T tensor.Float] struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    T
	a, b, c        []T
	lda, ldb, ldc  int
}

func drawProduct[T tensor.Float](t *rapid.T, g *guards) matrixProduct[T] {
	extent := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 70), rapid.SampledFrom([]int{6, 12, 16, 32, 64}))
	depth := rapid.OneOf(extent, rapid.IntRange(vectorDepth-1, 2*vectorDepth+9))
	p := matrixProduct[T]{
		transA: rapid.Bool().Draw(t, "transA"), transB: rapid.Bool().Draw(t, "transB"),
		m: extent.Draw(t, "m"), n: extent.Draw(t, "n"), k: depth.Draw(t, "k"),
		alpha: T(rapid.SampledFrom([]float64{1, -0.5}).Draw(t, "alpha")),
		beta:  T(rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "beta")),
	}
	gap := func(what string) int { return rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, what) }
	aRows, aColumns, bRows, bColumns := p.m, p.k, p.k, p.n
	if p.transA {
		aRows, aColumns = aColumns, aRows
	}
	if p.transB {
		bRows, bColumns = bColumns, bRows
	}
	p.lda, p.ldb, p.ldc = aColumns+gap("gap of A"), bColumns+gap("gap of B"), p.n+gap("gap of C")
	seed := rapid.Int64().Draw(t, "seed")
	p.a = guarded(g, 0, noise[T](seed, (aRows-1)*p.lda+aColumns))
	p.b = guarded(g, 1, noise[T](seed+1, (bRows-1)*p.ldb+bColumns))
	p.c = guarded(g, 2, noise[T](seed+2, (p.m-1)*p.ldc+p.n))
	return p
}

// compute returns C after the call, which writes into p.c.
func (p *matrixProduct[T]) compute(workspace []T) []T {
	Gemm(p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc, workspace)
	return slices.Clone(p.c)
}

// TestPackedGemmHasTheBitsOfGemm compares products with a packed matrix with those of the matrix as it was.
func TestPackedGemmHasTheBitsOfGemm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(0, 9).Draw(t, "m"), rapid.IntRange(0, 70).Draw(t, "n"), rapid.IntRange(0, 300).Draw(t, "k")
		trans := rapid.Bool().Draw(t, "trans")
		beta := rapid.SampledFrom([]float32{0, 1, -0.5}).Draw(t, "beta")
		ldb := n
		if trans {
			ldb = k
		}
		ldb += rapid.IntRange(0, 3).Draw(t, "gap")
		a, b := make([]float32, m*k), make([]float32, max(n, k)*ldb)
		for i := range a {
			a[i] = float32(math.Sin(float64(3 * i)))
		}
		for i := range b {
			b[i] = float32(math.Cos(float64(5 * i)))
		}
		want, got := make([]float32, m*n), make([]float32, m*n)
		for i := range want {
			want[i], got[i] = float32(i), float32(i)
		}
		Gemm(false, trans, m, n, k, 0.5, a, k, b, ldb, beta, want, n, make([]float32, GemmWorkspace(m, n, k)))
		packed := make([]float32, n*k)
		PackGemm(trans, n, k, b, ldb, packed)
		GemmPacked(m, n, k, 0.5, a, k, packed, beta, got, n, make([]float32, GemmPackedWorkspace(m, n, k)))
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("element %d of %d x %d: %v, want %v", i, m, n, got[i], want[i])
			}
		}
	})
}
