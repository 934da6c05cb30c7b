package kernel

import "github.com/edl-go/edl/tensor"

// Block sizes of Gemm: a packed block of op(A) holds gemmRows x gemmDepth elements and stays in the second-level cache,
// a packed block of op(B) holds gemmDepth x gemmCols. They are multiples of the tile sizes.
const (
	gemmRows  = 128
	gemmCols  = 512
	gemmDepth = 256
)

// GemmWorkspace returns the workspace length that Gemm needs for these extents. It does not shrink when an extent grows, so
// the workspace of the largest call serves them all.
func GemmWorkspace(m, n, k int) int {
	depth := min(k, gemmDepth)
	return (roundUp(min(m, gemmRows), tileRows) + roundUp(min(n, gemmCols), tileCols)) * depth
}

func roundUp(x, multiple int) int { return (x + multiple - 1) / multiple * multiple }

// Gemm computes C = alpha*op(A)*op(B) + beta*C for row-major matrices, where op(X) is X or, with trans set, its
// transpose. op(A) is m x k, op(B) is k x n, C is m x n; lda, ldb and ldc are the distances between the rows of A, B and
// C as they are stored, at least the length of these rows. beta 0 overwrites C without reading it. workspace holds at least
// GemmWorkspace(m, n, k) elements. C overlaps neither A nor B.
//
// An element of C sums its products in ascending order of k, in blocks of a length fixed by k alone. It therefore does
// not depend on m, n or its place in C: computing any rows or columns alone gives the same bits as computing all.
func Gemm[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int, workspace []T) {
	if m == 0 || n == 0 {
		return
	}
	scaleMatrix(m, n, beta, c, ldc)
	if k == 0 || alpha == 0 {
		return
	}
	packedRows := roundUp(min(m, gemmRows), tileRows) * min(k, gemmDepth)
	packedA, packedB := workspace[:packedRows], workspace[packedRows:]
	for col := 0; col < n; col += gemmCols {
		cols := min(gemmCols, n-col)
		for p := 0; p < k; p += gemmDepth {
			depth := min(gemmDepth, k-p)
			if transB {
				packRows(packedB, b[col*ldb+p:], ldb, cols, depth, tileCols)
			} else {
				packColumns(packedB, b[p*ldb+col:], ldb, cols, depth, tileCols)
			}
			for row := 0; row < m; row += gemmRows {
				rows := min(gemmRows, m-row)
				if transA {
					packColumns(packedA, a[p*lda+row:], lda, rows, depth, tileRows)
				} else {
					packRows(packedA, a[row*lda+p:], lda, rows, depth, tileRows)
				}
				gemmBlock(rows, cols, depth, alpha, packedA, packedB, c[row*ldc+col:], ldc)
			}
		}
	}
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

// gemmBlock adds alpha times the product of two packed blocks to a rows x cols block of C.
func gemmBlock[T tensor.Float](rows, cols, depth int, alpha T, a, b, c []T, ldc int) {
	var tile [tileRows * tileCols]T
	for j := 0; j < cols; j += tileCols {
		panelB := b[j*depth : (j+tileCols)*depth]
		width := min(tileCols, cols-j)
		for i := 0; i < rows; i += tileRows {
			gemmTile(a[i*depth:(i+tileRows)*depth], panelB, &tile)
			for r := range min(tileRows, rows-i) {
				out := c[(i+r)*ldc+j:][:width]
				for q := range out {
					out[q] += alpha * tile[r*tileCols+q]
				}
			}
		}
	}
}
