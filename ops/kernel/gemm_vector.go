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
	longRows      = 528 // the same where A is transposed and copied, so that k is long and what is copied of B comes from far away
	vectorColumns = 32  // of a packed panel of op(B)
	packedGap     = 16  // between packed rows, so that rows of a power of two do not meet in one cache set
	thinColumns   = 4   // up to which the roles of A and B are exchanged
)

// vectorWorkspace is GemmWorkspace for vector instructions.
func vectorWorkspace(m, n, k int) int {
	depth := min(k, vectorDepth)
	return vectorColumns*depth + roundUp(min(m, longRows), 12)*(depth+packedGap)
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
	most := vectorRows
	if g.transA && g.packsA() {
		most = longRows
	}
	blocks := (g.m + most - 1) / most
	return min(roundUp((g.m+blocks-1)/blocks, simd.TileRows(g.level)), most)
}

// block adds the products of depth k from p to count rows of C from first, and finishes what becomes complete by that.
func (g *gemmCall[T]) block(p, depth, first, count int, packA bool) {
	size, beta := sizeOf[T](), g.beta
	if p > 0 {
		beta = 1
	}
	t := simd.Tile[T]{RowC: g.ldc * size, Depth: depth, Alpha: g.alpha, Beta: beta}
	a, strip := g.placeOfA(&t, p, depth, first, count, packA)
	most := simd.TileRows(g.level)
	strips := (count + most - 1) / most
	packB := g.packsB(count)
	for j := 0; j < g.n; {
		columns := simd.TileColumns[T](g.level, g.n-j)
		b := g.placeOfB(&t, p, depth, j, columns, packB)
		t.B = unsafe.Pointer(unsafe.SliceData(b))
		at := 0
		for s := range strips {
			t.Rows = rowsOfStrip(count-at, strips-s)
			from := at * t.RowA
			if strip > 0 {
				from = s * strip
			}
			t.A = unsafe.Add(unsafe.Pointer(unsafe.SliceData(a)), from)
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

func sizeOf[T tensor.Float]() int { return int(unsafe.Sizeof(T(0))) }
