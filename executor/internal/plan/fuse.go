package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// A Fusion names one way to do the work of a program with fewer passes over memory and fewer dispatches than one for each op. No fusion changes a
// bit of a result: the ranges of a loop give the bits of the whole loop (ops.Loop), and a piece moves only past pieces with which it shares no
// variable.
type Fusion string

// The fusions of a plan.
const (
	// FuseUnread leaves out ops whose results nobody reads.
	FuseUnread Fusion = "unread"
	// FuseViews lets copies share the elements of what they copy: reshape2, and a split and a concat of whole rows.
	FuseViews Fusion = "views"
	// FuseEpilogues lets products and convolutions add a bias and apply a function to blocks of their result as these become complete, and batch_norm
	// apply a function.
	FuseEpilogues Fusion = "epilogues"
	// FuseFanIn lets products add their result to other gradients of the same variable, in place of a sum.
	FuseFanIn Fusion = "fan-in"
	// FuseRows runs loops that hand rows on to each other range by range: conv2d with its pooling or the statistics of batch_norm, mul with an activation (also if another op reads
	// its operand), softmax with its loss, gradients with those of activations and with sums of gradients.
	FuseRows Fusion = "rows"
	// FuseUpdates runs the updates of small parameters in one step.
	FuseUpdates Fusion = "updates"
)

// Fusions lists all of them.
var Fusions = []Fusion{FuseUnread, FuseViews, FuseEpilogues, FuseFanIn, FuseRows, FuseUpdates}

// A fuser is the stage that applies fusions to the pieces. It takes those of the binder, and hands on fewer that compute the same.
type fuser struct {
	variables *variables
	pieces    []*piece
	held      []*variable // that pieces go on using until the end of the block
	moving    bool        // variables of the scope may get other memory between runs, so nothing can be a view of them
	copies    []sharing   // that are left out, because what they copy to or from are views
}

// fuse applies every fusion that is not left out.
func (f *fuser) fuse(without []Fusion) {
	for _, pass := range []struct {
		fusion Fusion
		apply  func()
	}{{FuseUnread, f.dropUnread}, {FuseViews, f.shareViews}, {FuseEpilogues, f.takeEpilogues}, {FuseFanIn, f.foldSums}} {
		if !slices.Contains(without, pass.fusion) {
			pass.apply()
		}
	}
}

// dropUnread leaves out pieces whose results nobody reads, such as gradients of variables that are not trained, and metrics that are not fetched.
func (f *fuser) dropUnread() {
	needed := map[*variable]bool{}
	var kept []*piece
	for _, p := range slices.Backward(f.pieces) {
		if !p.hasEffect(needed) {
			continue
		}
		for _, v := range p.reads {
			needed[v] = true
		}
		kept = append(kept, p)
	}
	slices.Reverse(kept)
	f.pieces = kept
}

// hasEffect reports whether the piece writes a needed variable or one that outlives the run, or reaches out of the process.
func (p *piece) hasEffect(needed map[*variable]bool) bool {
	return p.goesOutside() || len(p.writes) == 0 || slices.ContainsFunc(p.writes, func(v *variable) bool {
		return v.place != temporary || needed[v]
	})
}

// takeEpilogues lets products and convolutions add a bias and apply a function to their result, and leaves out the pieces right behind them that did
// so. The result without bias and function is then never stored. So this is right only if no other piece reads it.
func (f *fuser) takeEpilogues() {
	count := f.countUses()
	kept := f.pieces[:0]
	for _, p := range f.pieces {
		if n := len(kept); n > 0 && f.takesOver(kept[n-1], p, count) {
			kept[n-1] = kept[n-1].with(p)
			continue
		}
		kept = append(kept, p)
	}
	f.pieces = kept
}

// countUses returns how many pieces touch each variable.
func (f *fuser) countUses() map[*variable]int {
	count := map[*variable]int{}
	for _, p := range f.pieces {
		p.touches(func(v *variable, _ bool) { count[v]++ })
	}
	return count
}

// takesOver reports whether p has taken over q, the piece behind it.
func (f *fuser) takesOver(p, q *piece, count map[*variable]int) bool {
	if p.loop.TakeOver == nil || q.loop.Epilogue == nil || len(p.writes) != 1 || len(q.writes) != 1 || p.optimizes() || q.optimizes() {
		return false
	}
	between, to, e := p.writes[0], q.writes[0], *q.loop.Epilogue
	from := f.variables.named[q.op.Inputs[e.Of][0]]
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
	all.from, all.taken = p.origin(), append(slices.Clone(p.taken), taken{epilogue: q.origin(), between: between})
	all.reads, all.whole = slices.Clone(p.reads), slices.Clone(p.whole)
	for _, v := range q.reads {
		if v != between && !uses(all.reads, v) {
			all.reads = append(all.reads, v)
		}
		if v != between && !uses(all.whole, v) {
			all.whole = append(all.whole, v)
		}
	}
	all.parts = slices.Concat(p.parts, q.parts)
	all.writes = q.writes
	all.also = append(slices.Clone(p.also), q.op.Type)
	all.cost = withEpilogue(p.cost, q.cost, between)
	return &all
}

// withEpilogue is the cost of a loop and an epilogue without what lay between them.
func withEpilogue(loop, epilogue ops.Cost, between *variable) ops.Cost {
	return ops.Cost{Flops: loop.Flops + epilogue.Flops, Bytes: loop.Bytes + epilogue.Bytes - 2*between.bytes()}
}

// withTerm is the cost of a loop that adds a term to its result.
func withTerm(loop ops.Cost, to, term *variable) ops.Cost {
	return ops.Cost{Flops: loop.Flops + int64(to.elements()), Bytes: loop.Bytes + term.bytes()}
}

// foldSums lets products add their result to the terms before it in a sum of gradients, and leaves out the sum. A sum adds its terms in their order.
// So this is right if, for each term after the first, such a product makes it, the term before is made earlier, and only the sum reads it. The
// product then stores the sum up to its term.
func (f *fuser) foldSums() {
	count := f.countUses()
	for i := 0; i < len(f.pieces); i++ {
		if terms, makers := f.foldable(i, count); makers != nil {
			f.fold(i, terms, makers)
			i--
		}
	}
}

// foldable returns the terms of piece i, in the order in which they are made, and the indices of the pieces that make all terms but the first. It
// returns nil if piece i is not a sum, or if these pieces cannot take it over.
func (f *fuser) foldable(i int, count map[*variable]int) (terms []*variable, makers []int) {
	sum := f.pieces[i]
	if sum.op.Type != "sum" || !sum.isLoop() || sum.optimizes() || len(sum.writes) != 1 || len(sum.parts) > 0 || f.touchedBefore(i, sum.writes[0]) {
		return nil, nil
	}
	for _, name := range sum.op.Inputs["X"] {
		v := f.variables.named[name]
		if v.rows != nil || !v.meta.DType.IsFloat() || slices.ContainsFunc(terms, func(w *variable) bool { return elementsOf(w) == elementsOf(v) }) {
			return nil, nil
		}
		terms, makers = append(terms, v), append(makers, f.lastWrite(i, elementsOf(v)))
	}
	if len(terms) == 2 && makers[0] > makers[1] { // a sum of two terms is the same in both orders
		slices.Reverse(terms)
		slices.Reverse(makers)
	}
	for k := 1; k < len(terms); k++ {
		v := terms[k]
		if makers[k] <= makers[k-1] || v.place != temporary || v.viewOf != nil || count[v] != 2 {
			return nil, nil
		}
		if p := f.pieces[makers[k]]; p.loop.Accumulate == nil || p.optimizes() || len(p.writes) != 1 {
			return nil, nil
		}
	}
	if len(terms) < 2 {
		return nil, nil
	}
	return terms, makers[1:]
}

// touchedBefore reports whether a piece before i reads or writes v.
func (f *fuser) touchedBefore(i int, v *variable) bool {
	return slices.ContainsFunc(f.pieces[:i], func(p *piece) bool { return uses(p.reads, v) || uses(p.writes, v) })
}

// lastWrite returns the index of the last piece before i that writes v, -1 for none.
func (f *fuser) lastWrite(i int, v *variable) int {
	for i--; i >= 0 && !uses(f.pieces[i].writes, v); i-- {
	}
	return i
}

// fold lets the makers of all terms but the first add the sum of the terms before, and takes out piece i.
func (f *fuser) fold(i int, terms []*variable, makers []int) {
	before := terms[0]
	for k, at := range makers {
		to := terms[k+1]
		if k == len(makers)-1 {
			to = f.pieces[i].writes[0]
		}
		p := *f.pieces[at]
		p.from, p.taken = f.pieces[at].origin(), append(slices.Clone(p.taken), taken{to: to, term: before})
		p.loop.Accumulate(to.tensor, before.tensor)
		p.loop.Accumulate, p.loop.TakeOver = nil, nil
		p.writes = []*variable{to}
		if from := elementsOf(before); !uses(p.reads, from) {
			p.reads = append(slices.Clone(p.reads), from)
		}
		p.term = elementsOf(before)
		p.loop.InPlace = p.loop.InPlace && len(p.also) == 0 // a bias or function comes before the term
		p.also = append(slices.Clone(p.also), "sum")
		p.cost = withTerm(p.cost, to, before)
		f.pieces[at] = &p
		before = to
	}
	f.pieces = slices.Delete(f.pieces, i, i+1)
}
