package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// GemmWorkspace returns the workspace length that Gemm needs for these extents. It does not shrink when an extent grows, so
// the workspace of the largest call serves them all.
func GemmWorkspace(m, n, k int) int {
	return max(portableWorkspace(m, n, k), vectorWorkspace(m, n, k))
}

// Gemm computes C = alpha*op(A)*op(B) + beta*C for row-major matrices, where op(X) is X or, with trans set, its
// transpose. op(A) is m x k, op(B) is k x n, C is m x n; lda, ldb and ldc are the distances between the rows of A, B and
// C as they are stored, at least the length of these rows. beta 0 overwrites C without reading it. workspace holds at least
// GemmWorkspace(m, n, k) elements. C overlaps neither A nor B.
//
// An element of C sums its products in ascending order of k, in blocks of a length fixed by k alone. It therefore does
// not depend on m, n or its place in C: computing any rows or columns alone gives the same bits as computing all. With
// vector instructions every product is fused with its sum, and all of them give the same bits.
func Gemm[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int, workspace []T) {
	GemmEpilogue(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, Epilogue[T]{}, workspace)
}

// AddsInPlace reports whether a product over k that is added to C, with alpha and beta 1, gives the bits of adding C to the product: the sum over k
// is one chain then, and its rounded value is added once. Portable loops add it to a zero first, which loses the sign of a zero.
func AddsInPlace(k int) bool { return Vectorized() && k > 0 && k <= vectorDepth }

// gemm is GemmEpilogue where there is something to multiply.
func gemm[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int, e Epilogue[T], workspace []T) {
	if level := simd.Current(); level != simd.None {
		panel := vectorColumns * min(k, vectorDepth)
		g := gemmCall[T]{level: level, transA: transA, transB: transB, m: m, n: n, k: k, alpha: alpha, beta: beta,
			a: a, b: b, c: c, lda: lda, ldb: ldb, ldc: ldc, epilogue: e, packedB: workspace[:panel], packedA: workspace[panel:]}
		g.run()
		return
	}
	gemmPortable(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, e, workspace)
}

// scaleMatrix multiplies an m x n matrix by beta; 0 sets it to zero whatever it holds.
func scaleMatrix[T tensor.Float](m, n int, beta T, c []T, ldc int) {
	if beta == 1 {
		return
	}
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= beta
		}
	}
}
