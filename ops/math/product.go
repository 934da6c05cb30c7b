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
	x, y           *tensor.Tensor
	ops.Finishing[T]
	xLD, yLD     int
	xSlot, ySlot string // inputs, for ops.Loop
	outSlot      string
}

const (
	// leastRows is below how many rows reading the other matrix takes a good part of the time.
	leastRows = 16
	// panel is how many columns go together, as many as fit the tiles of every processor. A cut by columns divides the rows of a panel in
	// groups of at least leastRows, so that parts differ by less than a panel.
	panel = 16
)

// loop cuts a product by rows, which other loops over rows can be joined to. For several goroutines a product of fewer rows than columns is
// cut by columns, so that each reads its part of the larger matrix. An element of a product has the same bits either way (kernel.Gemm).
func (p *product[T]) loop(b *ops.Binding) ops.Loop {
	each := kernel.GemmWorkspace(p.m, p.n, p.k)
	workspace := b.Scratch(p.x.DType(), b.Parts()*each)
	take := p.TakeOver(p.m, p.n, 1)
	inPlace := p.alpha == 1 && kernel.AddsInPlace(p.k)
	reads, writes := []string{p.xSlot, p.ySlot}, []string{p.outSlot}
	if b.Parts() > 1 && p.m < p.n && p.m < leastRows*leastRows {
		groups := max(1, p.m/leastRows)
		panels := (p.n + panel - 1) / panel
		return ops.Loop{N: panels * groups, Reads: reads, Whole: reads, Writes: writes, Apart: true, TakeOver: take, Accumulate: p.Accumulate,
			InPlace: inPlace, Run: func(part, from, to int) error {
				for from < to {
					first, group := from/groups, from%groups
					count := (to - from) / groups // of whole panels
					if group > 0 || count == 0 {
						end := min(groups, group+to-from)
						p.run(part, each, workspace, p.m*group/groups, p.m*end/groups, first*panel, min((first+1)*panel, p.n))
						from += end - group
						continue
					}
					p.run(part, each, workspace, 0, p.m, first*panel, min((first+count)*panel, p.n))
					from += count * groups
				}
				return nil
			}}
	}
	whole, least := []string{p.ySlot}, leastRows
	if p.transX {
		whole = reads
	}
	if p.transY { // every range copies y
		least = max(leastRows, min(2*leastRows, p.m/4))
	}
	return ops.Loop{N: p.m, Least: least, Reads: reads, Whole: whole, Writes: writes, TakeOver: take, Accumulate: p.Accumulate, InPlace: inPlace,
		Run: func(part, from, to int) error {
			p.run(part, each, workspace, from, to, 0, p.n)
			return nil
		}}
}

// run computes some rows and columns of a product.
func (p *product[T]) run(part, each int, workspace *tensor.Tensor, firstRow, endRow, firstColumn, endColumn int) {
	row, column := firstRow*p.xLD, firstColumn // where op(x) and op(y) begin
	if p.transX {
		row = firstRow
	}
	if p.transY {
		column = firstColumn * p.yLD
	}
	at, beta := firstRow*p.n+firstColumn, T(0)
	e := kernel.Epilogue[T]{Activation: p.Function}
	if p.Bias != nil {
		e.Bias = tensor.Data[T](p.Bias)[firstColumn:endColumn]
	}
	switch {
	case p.Term == nil:
	case samePlace(tensor.Data[T](p.Term), tensor.Data[T](p.Out)):
		beta = 1
	default:
		e.Term = tensor.Data[T](p.Term)[at:]
	}
	kernel.GemmEpilogue(p.transX, p.transY, endRow-firstRow, endColumn-firstColumn, p.k, p.alpha,
		tensor.Data[T](p.x)[row:], p.xLD, tensor.Data[T](p.y)[column:], p.yLD,
		beta, tensor.Data[T](p.Out)[at:], p.n, e, ops.Part(tensor.Data[T](workspace), part, each))
}

func samePlace[T tensor.Float](a, b []T) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
