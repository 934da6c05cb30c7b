package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// A gemmCall holds the arguments of Gemm where vector instructions compute it. Every way through it gives the same bits:
// k is cut into blocks of a length fixed by k alone, and within a block simd.RunTile adds in one order for every tile.
type gemmCall[T tensor.Float] struct {
	level            simd.Level
	transA, transB   bool
	m, n, k          int
	alpha, beta      T
	a, b, c          []T
	lda, ldb, ldc    int
	epilogue         Epilogue[T]
	packedA, packedB []T
}

// Limits of blocks. They hold for both element types, so that GemmWorkspace need not know it.
const (
	vectorDepth   = 256 // of k
	vectorRows    = 384 // of a block of op(A), which is to stay in the second-level cache
	vectorColumns = 32  // of a packed panel of op(B)
	packedGap     = 16  // between packed rows, so that rows of a power of two do not meet in one cache set
	thinColumns   = 4   // up to which the roles of A and B are exchanged
)

// vectorWorkspace is GemmWorkspace for vector instructions.
func vectorWorkspace(m, n, k int) int {
	depth := min(k, vectorDepth)
	return vectorColumns*depth + min(m, vectorRows)*(depth+packedGap) + min(k, vectorDepth)*packedGap
}

// depthOfBlock returns the length of all blocks of k but the last: equal parts, so that none is short.
func depthOfBlock(k int) int {
	blocks := (k + vectorDepth - 1) / vectorDepth
	return min(roundUp((k+blocks-1)/blocks, 8), vectorDepth)
}

// run computes C block by block. A block of rows is finished before the next one begins, so that its part of C stays near, too; but where op(A) is
// packed, which happens for products over a long k, a part of op(B) serves all rows before the next one is fetched.
func (g *gemmCall[T]) run() {
	if g.n <= thinColumns && g.m >= 2*g.n {
		g.runThin()
		return
	}
	block, rows := depthOfBlock(g.k), g.rowsOfBlock()
	if g.packsA() {
		for p := 0; p < g.k; p += block {
			for i := 0; i < g.m; i += rows {
				g.block(p, min(block, g.k-p), i, min(rows, g.m-i), true)
			}
		}
		return
	}
	for i := 0; i < g.m; i += rows {
		for p := 0; p < g.k; p += block {
			g.block(p, min(block, g.k-p), i, min(rows, g.m-i), false)
		}
	}
}

// rowsOfBlock returns how many rows all blocks but the last have: about equal parts, and whole tiles.
func (g *gemmCall[T]) rowsOfBlock() int {
	blocks := (g.m + vectorRows - 1) / vectorRows
	return min(roundUp((g.m+blocks-1)/blocks, simd.TileRows(g.level)), vectorRows)
}

// block adds the products of depth k from p to count rows of C from first, and finishes what becomes complete by that.
func (g *gemmCall[T]) block(p, depth, first, count int, packA bool) {
	size, beta := sizeOf[T](), g.beta
	if p > 0 {
		beta = 1
	}
	t := simd.Tile[T]{RowC: g.ldc * size, Depth: depth, Alpha: g.alpha, Beta: beta}
	a := g.placeOfA(&t, p, depth, first, count, packA)
	most := simd.TileRows(g.level)
	strips := (count + most - 1) / most
	packB := g.packsB(count)
	for j := 0; j < g.n; {
		columns := simd.TileColumns[T](g.level, g.n-j)
		b := g.placeOfB(&t, p, depth, j, columns, packB)
		t.B = unsafe.Pointer(unsafe.SliceData(b))
		at := 0
		for s := range strips {
			t.Rows = (count - at + strips - s - 1) / (strips - s)
			t.A = unsafe.Add(unsafe.Pointer(unsafe.SliceData(a)), at*t.RowA)
			t.C = unsafe.Pointer(&g.c[(first+at)*g.ldc+j])
			simd.RunTile(g.level, &t, columns)
			at += t.Rows
		}
		j += columns
	}
	if p+depth == g.k {
		g.epilogue.finish(g.c, g.ldc, first, count, 0, g.n)
	}
}

// packsA reports whether op(A) is copied before use. Tiles read A in place at the same speed, but for a transposed A whose
// rows, one for each k, fall into few sets of the cache.
func (g *gemmCall[T]) packsA() bool {
	return g.transA && sizeOf[T]()*g.lda%2048 == 0 && g.n >= 128
}

// packsB is packsA for a panel of op(B) that count rows of C share. A copy pays where rows of B are far apart and enough
// tiles use it, and sooner beside a transposed A, whose k is long as a rule, so that B comes from far away. A transposed B always goes through one.
func (g *gemmCall[T]) packsB(count int) bool {
	worth := 1 << 18
	if g.level == simd.AVX512 && !g.transA { // its tiles have twice the rows, and wait less for each vector
		worth = 1 << 20
	}
	return g.transB || sizeOf[T]()*g.ldb*count > worth
}

// placeOfA returns the block of op(A) and sets its distances.
func (g *gemmCall[T]) placeOfA(t *simd.Tile[T], p, depth, first, count int, pack bool) []T {
	size := sizeOf[T]()
	rows, columns, from := count, depth, first*g.lda+p
	if g.transA {
		rows, columns, from = depth, count, p*g.lda+first
	}
	a, ld := g.a[from:], g.lda
	if pack {
		ld = columns + packedGap
		copyMatrix(g.packedA, ld, a, g.lda, rows, columns)
		a = g.packedA
	}
	_ = a[(rows-1)*ld+columns-1]
	t.RowA, t.StepA = ld*size, size
	if g.transA {
		t.RowA, t.StepA = size, ld*size
	}
	return a
}

// placeOfB returns a panel of op(B) and sets its distance.
func (g *gemmCall[T]) placeOfB(t *simd.Tile[T], p, depth, first, columns int, pack bool) []T {
	size := sizeOf[T]()
	if g.transB {
		simd.Transpose(g.packedB, vectorColumns, g.b[first*g.ldb+p:], g.ldb, columns, depth)
	} else if b := g.b[p*g.ldb+first:]; pack {
		copyMatrix(g.packedB, vectorColumns, b, g.ldb, depth, columns)
	} else {
		_ = b[(depth-1)*g.ldb+columns-1]
		t.StepB = g.ldb * size
		return b
	}
	t.StepB = vectorColumns * size
	return g.packedB
}

// copyMatrix copies rows rows of columns elements; to and from are the distances between them.
func copyMatrix[T tensor.Float](dst []T, to int, src []T, from, rows, columns int) {
	for r := range rows {
		copy(dst[r*to:][:columns], src[r*from:][:columns])
	}
}

func sizeOf[T tensor.Float]() int { return int(unsafe.Sizeof(T(0))) }
