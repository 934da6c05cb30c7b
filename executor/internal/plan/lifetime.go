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
	first, last int // steps that touch it
	offset      int // in elements, set by arena.place
}

// layOut finds how long each temporary lives and packs the arenas.
func (c *compiler) layOut() error {
	c.holdUntilBarriers()
	for _, v := range c.order {
		if v.place == temporary {
			v.buffer = &buffer{elements: int(ops.Product(v.meta.Dims)), first: v.first, last: v.last}
			c.plan.memory.Sum += int64(v.buffer.elements) * int64(v.meta.DType.Size())
		}
	}
	for i := range c.plan.steps {
		c.shareInPlace(i)
	}
	c.packArenas()
	return nil
}

// holdUntilBarriers extends the life of what a step goes on reading or writing after its kernel returned: to the barrier
// that follows, or to the end of the block. The barrier then counts as a step that touches it.
func (c *compiler) holdUntilBarriers() {
	var held []*variable
	for i := range c.plan.steps {
		s := &c.plan.steps[i]
		if strings.HasSuffix(s.op.Type, "_barrier") && s.def.Class == ops.Dist {
			for _, v := range held {
				v.last = max(v.last, i)
			}
			s.writes = append(s.writes, held...)
			held = nil
			continue
		}
		if s.def.HoldsInputs {
			held = append(held, s.reads...)
		}
		if s.def.Class == ops.Dist {
			held = append(held, s.writes...)
		}
	}
	for _, v := range held {
		v.last = len(c.plan.steps)
	}
}

// shareInPlace lets the outputs of step i take over the memory of inputs that die there, where the op allows it.
func (c *compiler) shareInPlace(i int) {
	s := &c.plan.steps[i]
	slots := make([]string, 0, len(s.def.InPlace))
	for slot := range s.def.InPlace {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for _, slot := range slots {
		outs, ins := s.op.Outputs[slot], s.op.Inputs[s.def.InPlace[slot]]
		for k := range min(len(outs), len(ins)) {
			if outs[k] != program.Empty && ins[k] != program.Empty {
				c.takeOver(s, i, c.variables[outs[k]], c.variables[ins[k]])
			}
		}
	}
}

func (c *compiler) takeOver(s *step, i int, out, in *variable) {
	if out.place != temporary || in.place != temporary || out.buffer == in.buffer || out.meta.DType != in.meta.DType {
		return
	}
	uses := 0
	for _, v := range s.reads {
		if v.buffer == in.buffer {
			uses++
		}
	}
	if uses != 1 || out.first != i || in.buffer.last != i || out.buffer.elements != in.buffer.elements {
		return
	}
	in.buffer.last = out.buffer.last
	out.buffer = in.buffer
}
