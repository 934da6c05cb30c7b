package plan

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A buffer is memory that one temporary needs, or several that follow each other in place.
type buffer struct {
	elements    int
	first, last int // pieces that touch it, and for the arena the steps that do
	offset      int // in elements, set by arena.place
}

// layOut finds how long each temporary lives and packs the arenas.
func (c *compiler) layOut() error {
	c.findLifetimes()
	c.holdUntilBarriers()
	for _, v := range c.order {
		if v.place == temporary && v.viewOf == nil && v.first >= 0 {
			v.buffer = &buffer{elements: v.elements(), first: v.first, last: v.last}
		}
		if v.place == temporary {
			c.plan.memory.Sum += v.bytes()
		}
	}
	for i := range c.plan.steps {
		s := &c.plan.steps[i]
		for k, p := range s.pieces {
			c.shareInPlace(s, p, s.first+k)
		}
	}
	c.packArenas()
	return nil
}

// findLifetimes finds the first and the last piece that touch each variable, and the first that writes it; -1 for none.
func (c *compiler) findLifetimes() {
	for _, v := range c.order {
		v.first, v.last, v.writer = -1, -1, -1
	}
	for i, p := range c.pieces {
		p.touches(func(v *variable, write bool) {
			if v.first < 0 {
				v.first = i
			}
			if write && v.writer < 0 {
				v.writer = i
			}
			v.last = i
		})
	}
}

// holdUntilBarriers extends the life of what a piece goes on reading or writing after its kernel returned: to the barrier
// that follows, or to the end of the block. The barrier then counts as a piece that touches it.
func (c *compiler) holdUntilBarriers() {
	var held []*variable
	for i, p := range c.pieces {
		if strings.HasSuffix(p.op.Type, "_barrier") && p.def.Class == ops.Dist {
			for _, v := range held {
				v.last = max(v.last, i)
			}
			p.writes = append(p.writes, held...)
			held = nil
			continue
		}
		if p.def.HoldsInputs {
			held = append(held, p.reads...)
		}
		if p.def.Class == ops.Dist {
			held = append(held, p.writes...)
		}
	}
	for _, v := range held {
		v.last = len(c.pieces)
	}
}

// shareInPlace lets the outputs of piece i, which is one of step s, take over the memory of inputs that die there, where the op allows
// it.
func (c *compiler) shareInPlace(s *step, p *piece, i int) {
	slots := make([]string, 0, len(p.def.InPlace))
	for slot := range p.def.InPlace {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for _, slot := range slots {
		outs, ins := p.op.Outputs[slot], p.op.Inputs[p.def.InPlace[slot]]
		for k := range min(len(outs), len(ins)) {
			if outs[k] == program.Empty || ins[k] == program.Empty {
				continue
			}
			out, in := c.variables[outs[k]], elementsOf(c.variables[ins[k]])
			if uses(p.writes, out) && uses(p.reads, in) {
				c.takeOver(s, p, i, out, in)
			}
		}
	}
	if p.term != nil && p.loop.InPlace {
		c.takeOver(s, p, i, p.writes[0], p.term)
	}
}

func (c *compiler) takeOver(s *step, p *piece, i int, out, in *variable) {
	if out.place != temporary || in.place != temporary || out.buffer == in.buffer || out.meta.DType != in.meta.DType {
		return
	}
	if out.first != i || in.buffer.last != i || out.buffer.elements != in.buffer.elements {
		return
	}
	if p.timesRead(c, in.buffer) != 1 || !s.isKernel() && !s.rowsOnly(in.buffer) {
		return
	}
	in.buffer.last = out.buffer.last
	out.buffer = in.buffer
}

// timesRead counts how often the op of a piece names a variable of a buffer as an input.
func (p *piece) timesRead(c *compiler, b *buffer) int {
	times := 0
	if p.term != nil && p.term.buffer == b {
		times++
	}
	for slot, names := range p.op.Inputs {
		if p.isLoop() && p.loop.Reads != nil && !slices.Contains(p.loop.Reads, slot) {
			continue
		}
		for _, name := range names {
			if name != program.Empty && elementsOf(c.variables[name]).buffer == b {
				times++
			}
		}
	}
	return times
}

// rowsOnly reports whether the loops of a step touch a buffer only iteration by iteration, so that an iteration may overwrite its own
// part before others have run.
func (s *step) rowsOnly(b *buffer) bool {
	return len(s.chains) == 1 && !slices.ContainsFunc(s.pieces, func(p *piece) bool {
		return slices.ContainsFunc(p.whole, func(v *variable) bool { return v.buffer == b })
	})
}
