package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

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
