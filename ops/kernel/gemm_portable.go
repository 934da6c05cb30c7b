package kernel

import "github.com/edl-go/edl/tensor"

// Block sizes of the portable Gemm: a packed block of op(A) holds gemmRows x gemmDepth elements and stays in the
// second-level cache, a packed block of op(B) holds gemmDepth x gemmCols. They are multiples of the tile sizes.
const (
	gemmRows  = 128
	gemmCols  = 512
	gemmDepth = 256
)

// portableWorkspace is GemmWorkspace for gemmPortable.
func portableWorkspace(m, n, k int) int {
	depth := min(k, gemmDepth)
	return (roundUp(min(m, gemmRows), tileRows) + roundUp(min(n, gemmCols), tileCols)) * depth
}

func roundUp(x, multiple int) int { return (x + multiple - 1) / multiple * multiple }

// gemmPortable is Gemm without vector instructions; m, n, k and alpha are not 0.
func gemmPortable[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int, e Epilogue[T], workspace []T) {
	scaleMatrix(m, n, beta, c, ldc)
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
				if p+depth == k {
					e.finish(c, ldc, row, rows, col, cols)
				}
			}
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
