package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// runThin computes C of few columns as the transpose of op(B)'*op(A)', so that the many rows fill the vectors. A product
// and a fused sum do not tell which factor came first.
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
			t.B = g.columnsOfA(&t, p, i, rows)
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
