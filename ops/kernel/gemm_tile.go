package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// The register tile of Gemm: eight running sums keep both floating-point units busy without spilling registers.
const (
	tileRows = 2
	tileCols = 4
)

// gemmTile multiplies a panel of tileRows rows of A by a panel of tileCols columns of B, both packed so that the
// elements of one k are adjacent, and overwrites tile, row-major, with the sums. Every sum runs in ascending k.
func gemmTile[T tensor.Float](a, b []T, tile *[tileRows * tileCols]T) {
	var c00, c01, c02, c03, c10, c11, c12, c13 T
	for len(a) >= 2*tileRows && len(b) >= 2*tileCols {
		x, y := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
		x, y = a[2], a[3]
		b0, b1, b2, b3 = b[4], b[5], b[6], b[7]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
		a, b = a[2*tileRows:], b[2*tileCols:]
	}
	if len(a) >= tileRows && len(b) >= tileCols {
		x, y := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
	}
	*tile = [tileRows * tileCols]T{c00, c01, c02, c03, c10, c11, c12, c13}
}

// A gemmCall holds the arguments of Gemm with vector instructions. Every way to compute it gives the same bits: k is divided into blocks whose
// length depends only on k, and within a block simd.RunTile adds in one order for every tile.
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

// Limits of blocks. They are equal for both element types, so GemmWorkspace does not depend on the type.
const (
	vectorDepth   = 256      // of k
	vectorRows    = 384      // of a block of op(A), which is to stay in the second-level cache
	longRows      = 528      // the same where A is transposed and copied, so that k is long and what is copied of B comes from far away
	vectorColumns = 32       // of a packed panel of op(B)
	packedGap     = 16       // between packed rows, so that rows of a power of two do not fall into one cache set
	nearBytes     = 16 << 10 // of a block of op(B) that stays in the first-level cache beside a strip of op(A)
	thinColumns   = 4        // up to which the roles of A and B are exchanged
)

// vectorWorkspace is GemmWorkspace for vector instructions.
func vectorWorkspace(m, n, k int) int {
	depth := min(k, vectorDepth)
	return vectorColumns*depth + roundUp(min(m, longRows), 12)*(depth+packedGap)
}

// depthOfBlock returns the length of all blocks of k but the last. Blocks are about equal, so that none is short.
func depthOfBlock(k int) int {
	blocks := ceilDiv(k, vectorDepth)
	return min(roundUp(ceilDiv(k, blocks), 8), vectorDepth)
}

// run computes C block by block. It completes a block of rows before the next one begins, so that this part of C stays in the cache. But if op(A)
// is packed, as for products over a long k, each part of op(B) serves all rows before the next part is read.
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

// rowsOfBlock returns the rows of all blocks but the last: about equal parts, in whole tiles.
func (g *gemmCall[T]) rowsOfBlock() int {
	most := vectorRows
	if g.transA && g.packsA() {
		most = longRows
	}
	blocks := ceilDiv(g.m, most)
	return min(roundUp(ceilDiv(g.m, blocks), simd.TileRows(g.level)), most)
}

// block adds the products of depth k from p on to count rows of C from first on, and finishes the elements that become complete.
func (g *gemmCall[T]) block(p, depth, first, count int, packA bool) {
	size, beta := sizeOf[T](), g.beta
	if p > 0 {
		beta = 1
	}
	t := simd.Tile[T]{RowC: g.ldc * size, Depth: depth, Alpha: g.alpha, Beta: beta}
	a, strip := g.placeOfA(&t, p, depth, first, count, packA)
	near := size*depth*count <= nearBytes || g.n == simd.TileColumns[T](g.level, g.n)
	if packB := g.packsB(count); packB || near || size*depth*g.n > nearBytes {
		g.byPanels(&t, a, strip, p, first, count, packB)
	} else {
		g.byStrips(&t, a, strip, p, first, count)
	}
	if p+depth == g.k {
		g.epilogue.finish(g.c, g.ldc, first, count, 0, g.n)
	}
}

// byPanels computes whole columns of a block, so that each panel of op(B) comes only once from a farther cache, or is copied only once. It takes two calls for all strips of a
// panel: those of more rows, and those of fewer. So a block of op(A) that stays near, or that only one panel needs, takes this way, too.
func (g *gemmCall[T]) byPanels(t *simd.Tile[T], a []T, strip, p, first, count int, packB bool) {
	most := simd.TileRows(g.level)
	strips := ceilDiv(count, most)
	for j := 0; j < g.n; {
		columns := simd.TileColumns[T](g.level, g.n-j)
		t.B = unsafe.Pointer(unsafe.SliceData(g.placeOfB(t, p, t.Depth, j, columns, packB)))
		for s, at := 0, 0; s < strips; {
			equal := equalStrips(count-at, strips-s)
			t.Rows, t.Count = rowsOfStrip(count-at, strips-s), equal
			t.A, t.NextA = stripOfA(a, t.RowA, strip, s, at), strip
			if strip == 0 {
				t.NextA = t.Rows * t.RowA
			}
			t.C = unsafe.Pointer(&g.c[(first+at)*g.ldc+j])
			simd.RunTile(g.level, t, columns)
			s, at = s+equal, at+equal*t.Rows
		}
		j += columns
	}
}

// byStrips computes whole rows of a block, so that each strip of op(A) comes only once from a farther cache. It reads op(B) in place.
func (g *gemmCall[T]) byStrips(t *simd.Tile[T], a []T, strip, p, first, count int) {
	most := simd.TileRows(g.level)
	strips := ceilDiv(count, most)
	at := 0
	for s := range strips {
		t.Rows = rowsOfStrip(count-at, strips-s)
		t.A = stripOfA(a, t.RowA, strip, s, at)
		for j := 0; j < g.n; {
			columns := simd.TileColumns[T](g.level, g.n-j)
			t.B = unsafe.Pointer(unsafe.SliceData(g.placeOfB(t, p, t.Depth, j, columns, false)))
			t.Count = 1
			t.C = unsafe.Pointer(&g.c[(first+at)*g.ldc+j])
			simd.RunTile(g.level, t, columns)
			j += columns
		}
		at += t.Rows
	}
}

// stripOfA returns strip number s of a block of op(A), which begins at row at. Strips are so many bytes apart, or follow each other if that is 0.
func stripOfA[T tensor.Float](a []T, rowBytes, strip, s, at int) unsafe.Pointer {
	from := at * rowBytes
	if strip > 0 {
		from = s * strip
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(a)), from)
}

func sizeOf[T tensor.Float]() int { return int(unsafe.Sizeof(T(0))) }

// packsA reports whether op(A) is copied before use. Usually tiles read A in place at the same speed. A copy pays if the elements that a tile reads
// together fall into few sets of the cache, and enough columns share the copy.
func (g *gemmCall[T]) packsA() bool {
	if g.transA {
		return sizeOf[T]()*g.lda%2048 == 0 && g.n >= 128
	}
	return sizeOf[T]()*g.lda%4096 == 0 && g.n >= 512
}

// packsB is packsA for a panel of op(B) that count rows of C share. A copy pays if rows of B are far apart and enough tiles use it. A transposed B
// is always copied.
func (g *gemmCall[T]) packsB(count int) bool {
	worth := 1 << 18
	if g.level == simd.AVX512 { // its tiles have twice the rows, and wait less for each vector
		worth = 1 << 20
	}
	return g.transB || sizeOf[T]()*g.ldb*count >= worth
}

// placeOfA returns the block of op(A) and sets its distances. If a transposed A is copied, strip is the number of bytes between strips, otherwise
// 0.
func (g *gemmCall[T]) placeOfA(t *simd.Tile[T], p, depth, first, count int, pack bool) (a []T, strip int) {
	size := sizeOf[T]()
	switch {
	case g.transA && pack:
		a, most := g.a[p*g.lda+first:], simd.TileRows(g.level)
		t.RowA, t.StepA = size, most*size
		return g.packedA, size * packStrips(g.packedA, a, g.lda, count, depth, most)
	case g.transA:
		a = g.a[p*g.lda+first:]
		_ = a[(depth-1)*g.lda+count-1]
		t.RowA, t.StepA = size, g.lda*size
		return a, 0
	}
	a, ld := g.a[first*g.lda+p:], g.lda
	if pack {
		ld = depth + packedGap
		copyMatrix(g.packedA, ld, a, g.lda, count, depth)
		a = g.packedA
	}
	_ = a[(count-1)*ld+depth-1]
	t.RowA, t.StepA = ld*size, size
	return a, 0
}

// placeOfB returns a panel of op(B) and sets its distance.
func (g *gemmCall[T]) placeOfB(t *simd.Tile[T], p, depth, first, columns int, pack bool) []T {
	size := sizeOf[T]()
	if g.transB {
		simd.Transpose(g.packedB, vectorColumns, g.b[first*g.ldb+p:], g.ldb, columns, depth)
	} else if b := g.b[p*g.ldb+first:]; pack {
		simd.CopyPanel(g.packedB, vectorColumns, b, g.ldb, depth, columns)
	} else {
		_ = b[(depth-1)*g.ldb+columns-1]
		t.StepB = g.ldb * size
		return b
	}
	t.StepB = vectorColumns * size
	return g.packedB
}
