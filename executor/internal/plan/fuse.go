package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// A Fusion names one way in which a plan does the work of a program with fewer passes over memory and fewer dispatches than one for each op. None
// changes a bit: ranges of loops give the bits of the whole (ops.Loop), and pieces move only past pieces that they share nothing with.
type Fusion string

// The fusions of a plan.
const (
	// FuseUnread leaves out what nobody reads.
	FuseUnread Fusion = "unread"
	// FuseViews lets copies such as reshape2 share the elements of what they copy.
	FuseViews Fusion = "views"
	// FuseEpilogues lets products and convolutions add a bias and apply a function to blocks of their result as these become complete.
	FuseEpilogues Fusion = "epilogues"
	// FuseFanIn lets products add their result to the gradients that it is summed with.
	FuseFanIn Fusion = "fan-in"
	// FuseRows runs loops that hand rows on to each other range by range: conv2d with its pooling, mul with an activation whose operand is read
	// elsewhere, too; softmax with its loss; gradients with those of activations and with sums of gradients.
	FuseRows Fusion = "rows"
	// FuseUpdates runs the updates of small parameters in one step.
	FuseUpdates Fusion = "updates"
)

// Fusions lists all of them.
var Fusions = []Fusion{FuseUnread, FuseViews, FuseEpilogues, FuseFanIn, FuseRows, FuseUpdates}

// fuse turns the pieces into steps.
func (c *compiler) fuse() error {
	if !c.without(FuseUnread) {
		c.dropUnread()
	}
	if !c.without(FuseViews) {
		c.shareViews()
	}
	if !c.without(FuseEpilogues) {
		c.takeEpilogues()
	}
	if !c.without(FuseFanIn) {
		c.foldSums()
	}
	update := len(c.pieces)
	for i, p := range c.pieces {
		if p.isUpdate() {
			update = i
			break
		}
	}
	p := c.plan
	p.steps = c.rows(nil, c.pieces[:update])
	p.update = len(p.steps)
	for rest := c.pieces[update:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].optimizes() == rest[0].optimizes() {
			n++
		}
		if rest[0].optimizes() {
			p.steps = append(p.steps, c.updates(rest[:n])...)
		} else {
			p.steps = c.rows(p.steps, rest[:n])
		}
		rest = rest[n:]
	}
	c.pieces = c.pieces[:0]
	for i := range p.steps {
		s := &p.steps[i]
		s.first = len(c.pieces)
		c.pieces = append(c.pieces, s.pieces...)
	}
	p.pieces = c.pieces
	return nil
}

func (c *compiler) without(f Fusion) bool {
	for _, w := range c.Without {
		if w == f {
			return true
		}
	}
	return false
}

// single makes a step of one piece.
func single(p *piece) step {
	s := step{pieces: []*piece{p}}
	if p.isLoop() {
		s.chains = []chain{{pieces: s.pieces}}
	}
	return s
}

// dropUnread leaves out pieces whose results nobody reads: gradients of what is not trained, and metrics that are not fetched.
func (c *compiler) dropUnread() {
	needed := map[*variable]bool{}
	var kept []*piece
	for _, p := range slices.Backward(c.pieces) {
		if !p.hasEffect(needed) {
			continue
		}
		for _, v := range p.reads {
			needed[v] = true
		}
		kept = append(kept, p)
	}
	slices.Reverse(kept)
	c.pieces = kept
}

// hasEffect reports whether something that outlives the run, or something needed, is written, or the world outside is reached.
func (p *piece) hasEffect(needed map[*variable]bool) bool {
	return p.goesOutside() || len(p.writes) == 0 || slices.ContainsFunc(p.writes, func(v *variable) bool {
		return v.place != temporary || needed[v]
	})
}

// shareViews lets the results of pieces that only copy, such as reshape2 and the gradient of an addition, share the elements of what they copy, and
// leaves these pieces out. That is right where neither is written again: the one because it is written by the copy alone, the other because
// nothing after the copy writes it.
func (c *compiler) shareViews() {
	writes := map[*variable]int{}    // how many pieces write it
	lastWrite := map[*variable]int{} // the last of them
	for i, p := range c.pieces {
		for _, v := range p.writes {
			writes[v]++
			lastWrite[v] = i
		}
	}
	kept := c.pieces[:0]
	for i, p := range c.pieces {
		if p.isLoop() && p.loop.Copies && len(p.reads) == 1 && len(p.writes) == 1 {
			from, to := p.reads[0], p.writes[0]
			at, written := lastWrite[from]
			if to.place == temporary && from != to && writes[to] == 1 && (!written || at < i) {
				c.replace(to, from, i)
				continue
			}
		}
		kept = append(kept, p)
	}
	c.pieces = kept
}

// replace makes every piece after one that read a variable read the one whose elements it shares.
func (c *compiler) replace(view, of *variable, after int) {
	view.viewOf = of
	for _, p := range c.pieces[after+1:] {
		for _, list := range [][]*variable{p.reads, p.whole} {
			for i, v := range list {
				if v == view {
					list[i] = of
				}
			}
		}
	}
}

// elementsOf returns the variable in whose elements v lies.
func elementsOf(v *variable) *variable {
	for v.viewOf != nil {
		v = v.viewOf
	}
	return v
}

// takeEpilogues lets products and convolutions add the bias and apply the function of the pieces right behind them to what they have just computed,
// and leaves those pieces out. What is between is then never stored, so that is right where nobody else reads it.
func (c *compiler) takeEpilogues() {
	count := c.countUses()
	kept := c.pieces[:0]
	for _, p := range c.pieces {
		if n := len(kept); n > 0 && c.takesOver(kept[n-1], p, count) {
			kept[n-1] = kept[n-1].with(p)
			continue
		}
		kept = append(kept, p)
	}
	c.pieces = kept
}

// countUses returns how many pieces touch the elements of each variable.
func (c *compiler) countUses() map[*variable]int {
	count := map[*variable]int{}
	for _, p := range c.pieces {
		p.touches(func(v *variable, _ bool) { count[v]++ })
	}
	return count
}

// takesOver reports whether p has taken over q, the piece behind it.
func (c *compiler) takesOver(p, q *piece, count map[*variable]int) bool {
	if p.loop.TakeOver == nil || q.loop.Epilogue == nil || len(p.writes) != 1 || len(q.writes) != 1 || p.optimizes() || q.optimizes() {
		return false
	}
	between, to, e := p.writes[0], q.writes[0], *q.loop.Epilogue
	from := c.variables[q.op.Inputs[e.Of][0]]
	switch {
	case between != from || between.place != temporary || count[between] != 2: // the second use is that of q
		return false
	case to == between || uses(p.reads, to) || uses(q.reads, to):
		return false
	}
	return e.Bias != between.tensor && p.loop.TakeOver(e)
}

// with returns p with the work of q, which it has taken over.
func (p *piece) with(q *piece) *piece {
	between := p.writes[0]
	all := *p
	all.reads, all.whole = slices.Clone(p.reads), slices.Clone(p.whole)
	for _, v := range q.reads {
		if v != between && !uses(all.reads, v) {
			all.reads = append(all.reads, v)
		}
		if v != between && !uses(all.whole, v) {
			all.whole = append(all.whole, v)
		}
	}
	all.writes = q.writes
	all.also = append(slices.Clone(p.also), q.op.Type)
	all.cost = ops.Cost{Flops: p.cost.Flops + q.cost.Flops, Bytes: p.cost.Bytes + q.cost.Bytes - 2*between.bytes()}
	return &all
}

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
