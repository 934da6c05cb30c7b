package kernel

import "github.com/edl-go/edl/ops/kernel/internal/simd"

// packsA reports whether op(A) is copied before use. Tiles read A in place at the same speed, but where what a tile reads at a time, or one after
// another, falls into few sets of the cache. Enough columns have to share the copy.
func (g *gemmCall[T]) packsA() bool {
	if g.transA {
		return sizeOf[T]()*g.lda%2048 == 0 && g.n >= 128
	}
	return sizeOf[T]()*g.lda%4096 == 0 && g.n >= 512
}

// packsB is packsA for a panel of op(B) that count rows of C share. A copy pays where rows of B are far apart and enough
// tiles use it. A transposed B always goes through one.
func (g *gemmCall[T]) packsB(count int) bool {
	worth := 1 << 18
	if g.level == simd.AVX512 { // its tiles have twice the rows, and wait less for each vector
		worth = 1 << 20
	}
	return g.transB || sizeOf[T]()*g.ldb*count >= worth
}

// placeOfA returns the block of op(A) and sets its distances. The strips of a copy of a transposed A begin strip bytes after each other; otherwise
// strip is 0.
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
