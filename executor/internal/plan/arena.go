package plan

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/tensor"
)

// align is the granule of the arena in elements: 64 bytes of float32, so that rows of different variables do not share a cache line.
const align = 16

// An arena packs the buffers of one dtype. There is one per dtype so that no memory changes its Go type.
type arena struct {
	space  int
	placed []*buffer // sorted by offset
	size   int       // in elements
	memory *tensor.Tensor
}

// packArenas places all buffers, the largest first: large ones leave gaps that small ones fill. Buffers that some step touches both lie
// apart, because the loops of a step may run side by side.
func (c *compiler) packArenas() {
	c.arenas = map[tensor.DType]*arena{}
	type demand struct {
		dtype tensor.DType
		*buffer
	}
	stepOf := c.stepOf()
	var demands []demand
	seen := map[*buffer]bool{}
	for _, v := range c.order {
		if v.buffer != nil && !seen[v.buffer] {
			seen[v.buffer] = true
			v.buffer.first, v.buffer.last = stepOf[v.buffer.first], stepOf[v.buffer.last]
			demands = append(demands, demand{v.meta.DType, v.buffer})
		}
	}
	slices.SortStableFunc(demands, func(a, b demand) int { return cmp.Compare(b.elements, a.elements) })
	for _, d := range demands {
		a := c.arenas[d.dtype]
		if a == nil {
			c.spaces++
			a = &arena{space: c.spaces}
			c.arenas[d.dtype] = a
		}
		a.place(d.buffer)
	}
}

// stepOf returns the step of each piece; the end of the block counts as one more.
func (c *compiler) stepOf() []int {
	of := make([]int, 0, len(c.pieces)+1)
	for i, s := range c.plan.steps {
		for range s.pieces {
			of = append(of, i)
		}
	}
	return append(of, len(c.plan.steps))
}

// place gives b the smallest gap that holds it among the buffers whose intervals meet its own, or room behind these.
func (a *arena) place(b *buffer) {
	need := rounded(b.elements)
	best, bestGap, end := -1, 0, 0
	for _, other := range a.placed {
		if other.last < b.first || b.last < other.first {
			continue
		}
		if gap := other.offset - end; gap >= need && (best < 0 || gap < bestGap) {
			best, bestGap = end, gap
		}
		end = max(end, other.offset+rounded(other.elements))
	}
	if best < 0 {
		best = end
	}
	a.insert(b, best)
}

func (a *arena) insert(b *buffer, offset int) {
	b.offset = offset
	a.size = max(a.size, offset+rounded(b.elements))
	at, _ := slices.BinarySearchFunc(a.placed, b, func(x, y *buffer) int { return cmp.Compare(x.offset, y.offset) })
	a.placed = slices.Insert(a.placed, at, b)
}

// rounded is the room that n elements take: at least one granule, so that also empty tensors have an address of their own.
func rounded(n int) int { return max(1, (n+align-1)/align) * align }
