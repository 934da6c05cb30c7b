package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// GemmWorkspace returns the workspace length of Gemm. It does not shrink if an extent grows, so the workspace of the largest call serves all calls.
func GemmWorkspace(m, n, k int) int {
	return max(portableWorkspace(m, n, k), vectorWorkspace(m, n, k))
}

// Gemm computes C = alpha*op(A)*op(B) + beta*C for row-major matrices. op(X) is X, or its transpose if trans is set. op(A) is m x k, op(B) is k x
// n, C is m x n. lda, ldb and ldc are the distances between rows in memory, at least the length of a row. With beta 0, Gemm overwrites C without
// reading it. workspace has at least GemmWorkspace(m, n, k) elements. C overlaps neither A nor B.
//
// An element of C sums its products in ascending order of k, in blocks whose length depends only on k. So it does not depend on m, n or its place
// in C: computing some rows or columns gives the same bits as computing all. With vector instructions every product is fused with its sum, and all
// vector instructions give the same bits.
func Gemm[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int, workspace []T) {
	GemmEpilogue(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, Epilogue[T]{}, workspace)
}

// AddsInPlace reports whether a product over k that is added to C, with alpha and beta 1, has the bits of C plus the product. It has if the sum
// over k is one chain, because then its rounded value is added once. Portable loops start at zero, which loses the sign of a zero.
func AddsInPlace(k int) bool { return Vectorized() && k > 0 && k <= vectorDepth }

// gemm is GemmEpilogue for a product that is not empty.
func gemm[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int, e Epilogue[T], workspace []T) {
	if level := simd.Current(); level != simd.None {
		panel := vectorColumns * min(k, vectorDepth)
		_ = c[(m-1)*ldc+n-1]
		g := gemmCall[T]{level: level, transA: transA, transB: transB, m: m, n: n, k: k, alpha: alpha, beta: beta,
			a: a, b: b, c: c, lda: lda, ldb: ldb, ldc: ldc, epilogue: e, packedB: workspace[:panel], packedA: workspace[panel:]}
		g.run()
		return
	}
	gemmPortable(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, e, workspace)
}

// scaleMatrix multiplies an m x n matrix by beta. With beta 0 it sets the matrix to zero, even NaN elements.
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

// An Epilogue is applied to each element of C when its sum over k is complete, alpha and beta included: first the bias is added, then the function
// applied, then the term added. The bits are those of Gemm, Add, the function and Accumulate, each over all of C.
type Epilogue[T tensor.Float] struct {
	Bias       []T              // one number for each column of C, nil for none
	ByRow      bool             // Bias has one number for each row
	Activation func(out, x []T) // nil for none; a function of single elements, such as Relu; out and x are one slice
	Term       []T              // in the layout of C; nil for none
}

// finishRun is how many adjacent elements an epilogue takes at a time. They stay in the first-level cache between the bias and the function.
const finishRun = 2048

// GemmEpilogue is Gemm with an epilogue, which runs on a block of rows of C as soon as the block is complete. It does not run on single tiles,
// because loops over a few dozen elements cost more than the nearer cache saves.
func GemmEpilogue[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int, e Epilogue[T], workspace []T) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 || alpha == 0 {
		scaleMatrix(m, n, beta, c, ldc)
		e.finish(c, ldc, 0, m, 0, n)
		return
	}
	gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, e, workspace)
}

// isEmpty reports whether there is nothing to do.
func (e Epilogue[T]) isEmpty() bool { return e.Bias == nil && e.Activation == nil && e.Term == nil }

// finish runs the epilogue over rows and columns of C.
func (e Epilogue[T]) finish(c []T, ldc, firstRow, rows, firstColumn, columns int) {
	switch {
	case e.isEmpty():
	case columns == ldc:
		step := max(1, finishRun/columns)
		for i := 0; i < rows; i += step {
			count := min(step, rows-i)
			at := (firstRow + i) * ldc
			e.finishRows(c[at:][:count*ldc], at, count, columns, e.bias(firstRow+i, count, firstColumn, columns))
		}
	default:
		for i := firstRow; i < firstRow+rows; i++ {
			at := i*ldc + firstColumn
			e.finishRows(c[at:][:columns], at, 1, columns, e.bias(i, 1, firstColumn, columns))
		}
	}
}

// bias returns the part of the bias for some rows and columns.
func (e Epilogue[T]) bias(firstRow, rows, firstColumn, columns int) []T {
	switch {
	case e.Bias == nil:
		return nil
	case e.ByRow:
		return e.Bias[firstRow:][:rows]
	}
	return e.Bias[firstColumn:][:columns]
}

// finishRows runs the epilogue on rows without gaps between them, from element at of C on.
func (e Epilogue[T]) finishRows(c []T, at, rows, columns int, bias []T) {
	switch {
	case bias == nil:
	case e.ByRow:
		Add(c, c, bias, 1, rows, columns)
	default:
		Add(c, c, bias, rows, columns, 1)
	}
	if e.Activation != nil {
		e.Activation(c, c)
	}
	if e.Term != nil {
		Accumulate(c, e.Term[at:][:len(c)])
	}
}

// runThin computes C with few columns as the transpose of op(B)'*op(A)', so that the rows fill the vectors. The order of the factors does not
// change a product or a fused sum.
func (g *gemmCall[T]) runThin() {
	size := sizeOf[T]()
	var c [thinColumns * vectorColumns]T // a panel of C, transposed
	t := simd.Tile[T]{C: unsafe.Pointer(&c), RowC: vectorColumns * size, Rows: g.n, Alpha: g.alpha}
	t.RowA, t.StepA = size, g.ldb*size
	if g.transB {
		t.RowA, t.StepA = t.StepA, t.RowA
	}
	block := depthOfBlock(g.k)
	for i := 0; i < g.m; {
		rows := simd.TileColumns[T](g.level, g.m-i)
		if g.beta != 0 {
			for r := range rows {
				for j, v := range g.c[(i+r)*g.ldc:][:g.n] {
					c[j*vectorColumns+r] = v
				}
			}
		}
		t.Beta = g.beta
		for p := 0; p < g.k; p += block {
			t.Depth = min(block, g.k-p)
			from := p * t.StepA / size
			_ = g.b[from+((g.n-1)*t.RowA+(t.Depth-1)*t.StepA)/size]
			t.A = unsafe.Pointer(&g.b[from])
			t.B, t.Count = g.columnsOfA(&t, p, i, rows), 1
			simd.RunTile(g.level, &t, rows)
			t.Beta = 1
		}
		for r := range rows {
			to := g.c[(i+r)*g.ldc:][:g.n]
			for j := range to {
				to[j] = c[j*vectorColumns+r]
			}
		}
		i += rows
	}
	g.epilogue.finish(g.c, g.ldc, 0, g.m, 0, g.n)
}

// columnsOfA returns t.Depth rows of the transpose of op(A) from p, count elements each, and sets their distance.
func (g *gemmCall[T]) columnsOfA(t *simd.Tile[T], p, first, count int) unsafe.Pointer {
	size := sizeOf[T]()
	if g.transA {
		t.StepB = g.lda * size
		_ = g.a[(p+t.Depth-1)*g.lda+first+count-1]
		return unsafe.Pointer(&g.a[p*g.lda+first])
	}
	simd.Transpose(g.packedB, vectorColumns, g.a[first*g.lda+p:], g.lda, count, t.Depth)
	t.StepB = vectorColumns * size
	return unsafe.Pointer(unsafe.SliceData(g.packedB))
}

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

func ceilDiv(x, y int) int { return (x + y - 1) / y }

func roundUp(x, multiple int) int { return ceilDiv(x, multiple) * multiple }

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
