package plan

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// attach makes the arenas and gives every tensor its elements, which kernels see from now on.
func (c *compiler) attach() error {
	p := c.plan
	for dtype, a := range c.arenas {
		memory, err := tensor.New(dtype, int64(a.size))
		if err != nil {
			return err
		}
		a.memory = memory
		p.memory.Arena += memory.Bytes()
	}
	for _, v := range c.order {
		if err := c.attachVariable(v); err != nil {
			return err
		}
	}
	for _, name := range c.Fetch {
		p.fetched = append(p.fetched, c.variables[name].tensor)
	}
	slices.Sort(p.written)
	return nil
}

func (c *compiler) attachVariable(v *variable) error {
	p := c.plan
	switch v.place {
	case own:
		p.memory.Own += v.tensor.Bytes()
	case scoped:
		if v.writer >= 0 {
			p.written = append(p.written, v.name)
		}
	case fed:
		f := feed{name: v.name, value: v.tensor, sequences: v.meta.Sequences, followers: c.followers(v)}
		for _, w := range c.order {
			if w.viewOf != nil && elementsOf(w) == v {
				f.views = append(f.views, w.tensor)
			}
		}
		p.feeds = append(p.feeds, f)
	case temporary:
		return c.attachTemporary(v)
	case valueless:
	}
	return nil
}

func (c *compiler) attachTemporary(v *variable) error {
	if of := elementsOf(v); of != v && of.place != temporary {
		v.span = of.span
		return v.tensor.Share(of.tensor)
	}
	b := elementsOf(v).buffer
	if b == nil { // nothing touches it
		return nil
	}
	a := c.arenas[v.meta.DType]
	v.span = span{space: a.space, from: b.offset, to: b.offset + rounded(b.elements)}
	memory, err := view(a.memory, b.offset, b.elements, v.meta.Stored())
	if err != nil {
		return err
	}
	return v.tensor.Share(memory)
}
