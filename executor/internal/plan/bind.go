package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// bind makes the tensors and binds every op once.
func (c *compiler) bind() error {
	p := c.plan
	p.env = c.Env
	p.env.Step = &p.step
	for dtype, a := range c.arenas {
		memory, err := tensor.New(dtype, int64(a.size))
		if err != nil {
			return err
		}
		a.memory = memory
		p.memory.Arena += memory.Bytes()
	}
	for _, v := range c.order {
		if err := c.allocate(v); err != nil {
			return err
		}
	}
	for i := range p.steps {
		if err := c.bindStep(i); err != nil {
			return ops.At(p.steps[i].op, err)
		}
	}
	for _, name := range c.Fetch {
		p.fetched = append(p.fetched, c.variables[name].tensor)
	}
	slices.Sort(p.written)
	return nil
}

func (c *compiler) allocate(v *variable) (err error) {
	p := c.plan
	switch v.place {
	case temporary:
		a := c.arenas[v.meta.DType]
		v.span = span{space: a.space, from: v.buffer.offset, to: v.buffer.offset + rounded(v.buffer.elements)}
		v.tensor, err = view(a.memory, v.buffer.offset, v.buffer.elements, v.meta.Dims)
		return err
	case own, fed:
		if v.tensor, err = tensor.New(v.meta.DType, v.meta.Dims...); err != nil {
			return named(v.name, err)
		}
		if v.place == fed {
			p.feeds = append(p.feeds, feed{v.name, v.tensor})
		} else {
			p.memory.Own += v.tensor.Bytes()
		}
	case scoped:
		if v.tensor, err = c.Scope.Var(v.name, v.meta.DType, v.meta.Dims); err != nil {
			return err
		}
		if v.writer >= 0 {
			p.written = append(p.written, v.name)
		}
	case valueless:
	}
	v.span = c.newSpace(1)
	return nil
}

func named(variable string, err error) error {
	return &fault.Fault{Kind: fault.KindOf(err), Variable: variable, Err: err}
}

// view returns n elements of memory from offset on, with dims.
func view(memory *tensor.Tensor, offset, n int, dims []int64) (*tensor.Tensor, error) {
	rows, err := memory.Rows(int64(offset), int64(offset+n))
	if err != nil {
		return nil, err
	}
	return rows.Reshape(dims...)
}

func (c *compiler) bindStep(i int) (err error) {
	p := c.plan
	s := &p.steps[i]
	var noScratch error
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		t, where, err := c.scratch(i, dtype, n)
		if err != nil {
			noScratch = err
			return nil
		}
		s.spans = append(s.spans, where)
		return t
	}
	defer func() {
		if r := recover(); r != nil {
			err = cmp.Or(noScratch, panicked(r))
		}
	}()
	binding := ops.NewBinding(s.op, s.def, &p.env, c.tensors(s.op.Inputs), c.tensors(s.op.Outputs), scratch)
	if s.kernel, err = s.def.Bind(binding); err != nil {
		return err
	}
	if noScratch == nil && s.kernel == nil {
		return fault.New(fault.Internal, "the op was bound to no kernel")
	}
	return noScratch
}

// panicked turns what a kernel panicked with into a fault: a program must not be able to end the process.
func panicked(r any) error {
	return &fault.Fault{Kind: fault.Internal, Err: fmt.Errorf("the kernel panicked: %v", r), Hint: "this is a bug of the op, or a tensor that the verifier should have refused"}
}

func (c *compiler) tensors(slots map[string][]string) map[string][]*tensor.Tensor {
	bound := make(map[string][]*tensor.Tensor, len(slots))
	for slot, names := range slots {
		list := make([]*tensor.Tensor, len(names))
		for i, name := range names {
			if name != program.Empty {
				list[i] = c.variables[name].tensor
			}
		}
		bound[slot] = list
	}
	return bound
}
