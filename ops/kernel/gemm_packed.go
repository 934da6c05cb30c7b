package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// PackGemm copies op(B), k x n, into packed, of k*n elements, in the order in which GemmPacked reads it. ldb is as in
// Gemm. It pays for a matrix that many products share.
func PackGemm[T tensor.Float](transB bool, n, k int, b []T, ldb int, packed []T) {
	for j := 0; j < n; j += vectorColumns {
		width := min(vectorColumns, n-j)
		panel := packed[j*k:][:width*k]
		switch {
		case len(panel) == 0:
		case transB:
			simd.Transpose(panel, width, b[j*ldb:], ldb, width, k)
		default:
			simd.CopyPanel(panel, width, b[j:], ldb, k, width)
		}
	}
}

// GemmPacked is Gemm with an A that is not transposed and an op(B) that PackGemm packed; it gives the same bits.
// workspace holds GemmPackedWorkspace(m, n, k) elements.
func GemmPacked[T tensor.Float](m, n, k int, alpha T, a []T, lda int, packed []T, beta T, c []T, ldc int, workspace []T) {
	if m == 0 {
		return
	}
	for j := 0; j < n; j += vectorColumns {
		width := min(vectorColumns, n-j)
		Gemm(false, false, m, width, k, alpha, a, lda, packed[j*k:], width, beta, c[j:], ldc, workspace)
	}
}

// GemmPackedWorkspace returns the workspace length that GemmPacked needs. Like GemmWorkspace it does not shrink when an
// extent grows.
func GemmPackedWorkspace(m, n, k int) int { return GemmWorkspace(m, min(n, vectorColumns), k) }
