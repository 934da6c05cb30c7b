package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// PackGemm copies op(B), k x n, into packed, which has k*n elements, in the order of GemmPacked. ldb is as in Gemm. It pays for a matrix that many
// products share.
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

// GemmPacked is Gemm for an A that is not transposed and an op(B) that PackGemm has packed. It gives the same bits. workspace has
// GemmPackedWorkspace(m, n, k) elements.
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

// packStrips copies the columns of a depth x count matrix, whose rows are ld apart, into strips of at most width columns. The widths of strips
// differ by at most one, but each strip has memory for width columns. It returns the distance between strips, which keeps them out of one set of
// the cache.
func packStrips[T tensor.Float](dst, src []T, ld, count, depth, width int) int {
	apart := width*depth + packedGap
	strips := ceilDiv(count, width)
	for s, at := 0, 0; s < strips; s++ {
		columns := rowsOfStrip(count-at, strips-s)
		strip := dst[s*apart:]
		for q := range depth {
			copy(strip[q*width:][:columns], src[q*ld+at:])
		}
		at += columns
	}
	return apart
}

// rowsOfStrip returns the rows of the next strip: about an equal part of the rows that are left.
func rowsOfStrip(left, strips int) int { return ceilDiv(left, strips) }

// equalStrips returns how many strips from the next one on have as many rows as that.
func equalStrips(left, strips int) int {
	if longer := left % strips; longer > 0 {
		return longer
	}
	return strips
}

// copyMatrix copies a matrix. to and from are the distances between rows.
func copyMatrix[T tensor.Float](dst []T, to int, src []T, from, rows, columns int) {
	for r := range rows {
		copy(dst[r*to:][:columns], src[r*from:][:columns])
	}
}

// packRows copies count rows of length depth, ld apart, into panels of width rows: panel by panel, and within a panel
// the width elements of one position are adjacent. Rows missing from the last panel are zeros, so that every element
// of C runs through the same tile.
func packRows[T tensor.Float](dst, src []T, ld, count, depth, width int) {
	for i := 0; i < count; i += width {
		panel := dst[i*depth : (i+width)*depth]
		if count-i < width {
			clear(panel)
		}
		for r := range min(width, count-i) {
			row := src[(i+r)*ld:][:depth]
			to := panel[r:]
			for p, v := range row {
				to[p*width] = v
			}
		}
	}
}

// packColumns is packRows for the columns of a depth x count matrix whose rows are ld apart.
func packColumns[T tensor.Float](dst, src []T, ld, count, depth, width int) {
	for i := 0; i < count; i += width {
		panel := dst[i*depth : (i+width)*depth]
		have := min(width, count-i)
		if have < width {
			clear(panel)
		}
		for p := range depth {
			copy(panel[p*width:][:have], src[p*ld+i:])
		}
	}
}
