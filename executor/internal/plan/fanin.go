package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// foldSums lets products add their result to the terms before it in a sum of gradients, and leaves the sum out. A sum adds its terms in their order,
// so that is right where each term after the first is made by such a product, after the term before it, and is read by nobody else: what is then
// stored in its place is the sum up to it.
func (c *compiler) foldSums() {
	count := c.countUses()
	for i := 0; i < len(c.pieces); i++ {
		if terms, makers := c.foldable(i, count); makers != nil {
			c.fold(i, terms, makers)
			i--
		}
	}
}

// foldable returns the terms of piece i, in the order in which they are made, and the places of the pieces that make all but the first; nil when
// piece i is no sum that these can take over.
func (c *compiler) foldable(i int, count map[*variable]int) (terms []*variable, makers []int) {
	sum := c.pieces[i]
	if sum.op.Type != "sum" || !sum.isLoop() || sum.optimizes() || len(sum.writes) != 1 || c.touchedBefore(i, sum.writes[0]) {
		return nil, nil
	}
	for _, name := range sum.op.Inputs["X"] {
		v := c.variables[name]
		if v.rows != nil || !v.meta.DType.IsFloat() || slices.ContainsFunc(terms, func(w *variable) bool { return elementsOf(w) == elementsOf(v) }) {
			return nil, nil
		}
		terms, makers = append(terms, v), append(makers, c.lastWrite(i, elementsOf(v)))
	}
	if len(terms) == 2 && makers[0] > makers[1] { // a sum of two does not tell which came first
		slices.Reverse(terms)
		slices.Reverse(makers)
	}
	for k := 1; k < len(terms); k++ {
		v := terms[k]
		if makers[k] <= makers[k-1] || v.place != temporary || v.viewOf != nil || count[v] != 2 {
			return nil, nil
		}
		if p := c.pieces[makers[k]]; p.loop.Accumulate == nil || p.optimizes() || len(p.writes) != 1 {
			return nil, nil
		}
	}
	if len(terms) < 2 {
		return nil, nil
	}
	return terms, makers[1:]
}

// touchedBefore reports whether a piece before i reads or writes v.
func (c *compiler) touchedBefore(i int, v *variable) bool {
	return slices.ContainsFunc(c.pieces[:i], func(p *piece) bool { return uses(p.reads, v) || uses(p.writes, v) })
}

// lastWrite returns the place of the last piece before i that writes v, -1 for none.
func (c *compiler) lastWrite(i int, v *variable) int {
	for i--; i >= 0 && !uses(c.pieces[i].writes, v); i-- {
	}
	return i
}

// fold replaces the makers of all terms but the first by pieces that add the sum before, and takes out piece i.
func (c *compiler) fold(i int, terms []*variable, makers []int) {
	before := terms[0]
	for k, at := range makers {
		to := terms[k+1]
		if k == len(makers)-1 {
			to = c.pieces[i].writes[0]
		}
		p := *c.pieces[at]
		p.loop.Accumulate(to.tensor, before.tensor)
		p.loop.Accumulate, p.loop.TakeOver = nil, nil
		p.writes = []*variable{to}
		if from := elementsOf(before); !uses(p.reads, from) {
			p.reads = append(slices.Clone(p.reads), from)
		}
		p.term = elementsOf(before)
		p.loop.InPlace = p.loop.InPlace && len(p.also) == 0 // a bias or function comes before the term
		p.also = append(slices.Clone(p.also), "sum")
		p.cost = ops.Cost{Flops: p.cost.Flops + int64(to.elements()), Bytes: p.cost.Bytes + before.bytes()}
		c.pieces[at] = &p
		before = to
	}
	c.pieces = slices.Delete(c.pieces, i, i+1)
}
