package plan

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A chunk is scratch memory outside of the arena. Steps share it; the scratch of one step never shares a chunk.
type chunk struct {
	memory *tensor.Tensor
	span   span
	user   int // the step that took it last
}

// scratch finds n elements that nothing else uses during step i: a gap of the arena, else a chunk. Sizes are known only
// while ops are bound, when the arena exists already; that is why it is not placed with the temporaries.
func (c *compiler) scratch(i int, dtype tensor.DType, n int) (*tensor.Tensor, span, error) {
	if n < 0 {
		return nil, span{}, fault.New(fault.Internal, "the op asked for scratch memory of a negative size")
	}
	dims := []int64{int64(n)}
	if a := c.arenas[dtype]; a != nil {
		b := &buffer{elements: n, first: i, last: i}
		if offset, ok := a.fit(b); ok {
			a.insert(b, offset)
			t, err := view(a.memory, offset, n, dims)
			return t, span{space: a.space, from: offset, to: offset + rounded(n)}, err
		}
	}
	var best *chunk
	for _, k := range c.chunks {
		if k.user != i && k.memory.DType() == dtype && k.memory.Len() >= n && (best == nil || k.memory.Len() < best.memory.Len()) {
			best = k
		}
	}
	if best == nil {
		memory, err := tensor.New(dtype, int64(rounded(n)))
		if err != nil {
			return nil, span{}, err
		}
		best = &chunk{memory: memory, span: c.newSpace(1)}
		c.chunks = append(c.chunks, best)
		c.plan.memory.Scratch += memory.Bytes()
	}
	best.user = i
	t, err := view(best.memory, 0, n, dims)
	return t, best.span, err
}
