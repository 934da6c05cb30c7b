package kernel

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
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
