package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A product is one matrix product as a loop: out = alpha*op(x)*op(y), of m x k by k x n.
type product[T tensor.Float] struct {
	transX, transY bool
	m, n, k        int
	alpha          T
	x, y, out      *tensor.Tensor
	xLD, yLD       int
	xSlot, ySlot   string // inputs, for ops.Loop
	outSlot        string
}

const (
	// leastRows is below how many rows reading the other matrix takes a good part of the time.
	leastRows = 16
	// panel is how many columns go together, as many as fit the tiles of every processor.
	panel = 16
)

// loop cuts a product by rows, which other loops over rows can be joined to. For several goroutines a product of fewer rows than columns is
// cut by columns, so that each reads its part of the larger matrix. An element of a product has the same bits either way (kernel.Gemm).
func (p *product[T]) loop(b *ops.Binding) ops.Loop {
	each := kernel.GemmWorkspace(p.m, p.n, p.k)
	workspace := b.Scratch(p.x.DType(), b.Parts()*each)
	reads, writes := []string{p.xSlot, p.ySlot}, []string{p.outSlot}
	if b.Parts() > 1 && p.m < p.n && p.m < leastRows*leastRows {
		return ops.Loop{N: (p.n + panel - 1) / panel, Reads: reads, Whole: reads, Writes: writes, Apart: true, Run: func(part, from, to int) error {
			from, to = from*panel, min(to*panel, p.n)
			column := from // from one column of op(Y) to the next
			if p.transY {
				column = from * p.yLD
			}
			kernel.Gemm(p.transX, p.transY, p.m, to-from, p.k, p.alpha, tensor.Data[T](p.x), p.xLD, tensor.Data[T](p.y)[column:], p.yLD,
				0, tensor.Data[T](p.out)[from:], p.n, ops.Part(tensor.Data[T](workspace), part, each))
			return nil
		}}
	}
	whole := []string{p.ySlot}
	if p.transX {
		whole = reads
	}
	return ops.Loop{N: p.m, Least: leastRows, Reads: reads, Whole: whole, Writes: writes, Run: func(part, from, to int) error {
		row := from * p.xLD
		if p.transX {
			row = from
		}
		kernel.Gemm(p.transX, p.transY, to-from, p.n, p.k, p.alpha, tensor.Data[T](p.x)[row:], p.xLD, tensor.Data[T](p.y), p.yLD,
			0, tensor.Data[T](p.out)[from*p.n:], p.n, ops.Part(tensor.Data[T](workspace), part, each))
		return nil
	}}
}
