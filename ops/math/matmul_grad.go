package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func bindMatmulGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	p := matmulShapeOf(b)
	if dout.Len() > 0 && p.batch == 1 {
		return b.Loops(matmulGradOnce[T](b, p)...)
	}
	if dout.Len() == 0 {
		return func(context.Context) error { // sums of nothing
			clear(opkit.Data[T](dx))
			clear(opkit.Data[T](dy))
			return nil
		}, nil
	}
	// An operand that meets all matrices of the other has a gradient that sums over them, so that one is cut by rows.
	most := max(p.m, p.n, p.k)
	each := kernel.GemmWorkspace(most, most, most)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	scratch := func(part int) []T { return ops.Part(tensor.Data[T](workspace), part, each) }
	var loops []ops.Loop
	if dy != nil {
		n, rows := matmulGradIterations(p.batch, p.yStep, y)
		loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"X", "Out@GRAD"}, Writes: []string{"Y@GRAD"},
			Run: func(part, from, to int) error {
				matmulGradY(p, tensor.Data[T](dy), tensor.Data[T](x), tensor.Data[T](dout), scratch(part), cutOf(p.batch, rows, from, to))
				return nil
			}})
	}
	if dx != nil {
		n, rows := matmulGradIterations(p.batch, p.xStep, x)
		loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"Y", "Out@GRAD"}, Writes: []string{"X@GRAD"},
			Run: func(part, from, to int) error {
				matmulGradX(p, tensor.Data[T](dx), tensor.Data[T](y), tensor.Data[T](dout), scratch(part), cutOf(p.batch, rows, from, to))
				return nil
			}})
	}
	return b.Loops(loops...)
}

// A gradCut is what a range of iterations computes of a gradient: rows of the matrices of a part of the batch.
type gradCut struct{ first, last, row, end int }

// matmulGradIterations returns how many iterations the gradient of an operand has, and how many rows each of its matrices: matrices where it
// has as many as the batch, else rows of the only one.
func matmulGradIterations(batch, step int, operand *tensor.Tensor) (n, rows int) {
	dims := operand.Dims()
	rows = int(dims[len(dims)-2])
	if step > 0 {
		return batch, rows
	}
	return rows, 0
}

// cutOf returns what iterations [from, to) compute; rows is 0 where they are rows.
func cutOf(batch, rows, from, to int) gradCut {
	if rows > 0 {
		return gradCut{from, to, 0, rows}
	}
	return gradCut{0, batch, from, to}
}

// matmulGradOnce are the loops of the gradients of one product.
func matmulGradOnce[T tensor.Float](b *ops.Binding, p matmulShape) []ops.Loop {
	dx := product[T]{transY: !p.transposeY, m: p.m, n: p.k, k: p.n, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD", y: b.In("Y"), yLD: p.yLD,
		ySlot: "Y"}
	if p.transposeX {
		dx = product[T]{transX: p.transposeY, transY: true, m: p.k, n: p.m, k: p.n, x: b.In("Y"), xLD: p.yLD, xSlot: "Y", y: b.In("Out@GRAD"),
			yLD: p.n, ySlot: "Out@GRAD"}
	}
	dy := product[T]{transX: !p.transposeX, m: p.k, n: p.n, k: p.m, x: b.In("X"), xLD: p.xLD, xSlot: "X", y: b.In("Out@GRAD"), yLD: p.n,
		ySlot: "Out@GRAD"}
	if p.transposeY {
		dy = product[T]{transX: true, transY: p.transposeX, m: p.n, n: p.k, k: p.m, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD",
			y: b.In("X"), yLD: p.xLD, ySlot: "X"}
	}
	dx.outSlot, dx.Out, dy.outSlot, dy.Out = "X@GRAD", b.Out("X@GRAD"), "Y@GRAD", b.Out("Y@GRAD")
	var loops []ops.Loop
	for _, d := range []product[T]{dy, dx} {
		if d.Out != nil {
			d.alpha = T(p.alpha)
			loops = append(loops, d.loop(b))
		}
	}
	return loops
}

// matmulGradX overwrites what cut says of dx, which sums over the batch when X has one matrix.
func matmulGradX[T tensor.Float](p matmulShape, dx, y, dout, workspace []T, cut gradCut) {
	for i := cut.first; i < cut.last; i++ {
		to, b, g := dx[i*p.xStep:], y[i*p.yStep:], dout[i*p.m*p.n:]
		if p.transposeX {
			accumulateProduct(p.transposeY, true, p.m, p.n, T(p.alpha), b, p.yLD, g, p.n, to, p.xLD, workspace, cut, p.xStep > 0 || i == 0)
		} else {
			accumulateProduct(false, !p.transposeY, p.k, p.n, T(p.alpha), g, p.n, b, p.yLD, to, p.xLD, workspace, cut, p.xStep > 0 || i == 0)
		}
	}
}

// matmulGradY overwrites what cut says of dy, which sums over the batch when Y has one matrix.
func matmulGradY[T tensor.Float](p matmulShape, dy, x, dout, workspace []T, cut gradCut) {
	for i := cut.first; i < cut.last; i++ {
		to, a, g := dy[i*p.yStep:], x[i*p.xStep:], dout[i*p.m*p.n:]
		if p.transposeY {
			accumulateProduct(true, p.transposeX, p.k, p.m, T(p.alpha), g, p.n, a, p.xLD, to, p.yLD, workspace, cut, p.yStep > 0 || i == 0)
		} else {
			accumulateProduct(!p.transposeX, false, p.n, p.m, T(p.alpha), a, p.xLD, g, p.n, to, p.yLD, workspace, cut, p.yStep > 0 || i == 0)
		}
	}
}

// accumulateProduct adds rows of alpha*op(a)*op(b), of n columns over k, to c, from which it first clears them if fresh.
func accumulateProduct[T tensor.Float](transA, transB bool, n, k int, alpha T, a []T, lda int, b []T, ldb int, c []T, ldc int,
	workspace []T, cut gradCut, fresh bool) {
	c = c[cut.row*ldc:]
	if fresh {
		clear(c[:(cut.end-cut.row)*ldc])
	}
	row := cut.row * lda
	if transA {
		row = cut.row
	}
	kernel.Gemm(transA, transB, cut.end-cut.row, n, k, alpha, a[row:], lda, b, ldb, 1, c, ldc, workspace)
}
