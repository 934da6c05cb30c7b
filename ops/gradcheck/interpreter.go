package gradcheck

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An Interpreter runs single ops on named tensors. It is the simplest executor there can be: every output and every
// scratch buffer is allocated apart and filled with garbage.
type Interpreter struct {
	Vars map[string]*tensor.Tensor
	Env  ops.Env
}

// NewInterpreter returns an interpreter over vars, at a step.
func NewInterpreter(vars map[string]*tensor.Tensor, step ops.Step) *Interpreter {
	return &Interpreter{Vars: vars, Env: ops.Env{Step: &step}}
}

// Infer runs the shape inference of op on the variables as they are.
func (m *Interpreter) Infer(op *program.Op) (*ops.Shapes, error) {
	return ops.Infer(op, func(name string) (ops.Meta, bool) {
		t, ok := m.Vars[name]
		if !ok {
			return ops.Meta{}, false
		}
		meta := ops.MetaOfValue(t)
		if meta.LoDLevel > 0 {
			meta.LoDOf = name
		}
		return meta, true
	})
}

// Bind infers the shapes of op, allocates the outputs that do not exist in these shapes yet, and binds the kernel.
func (m *Interpreter) Bind(op *program.Op) (ops.Kernel, error) {
	kernel, _, err := m.bind(op)
	return kernel, err
}

func (m *Interpreter) bind(op *program.Op) (ops.Kernel, []ops.Loop, error) {
	shapes, err := m.Infer(op)
	if err != nil {
		return nil, nil, err
	}
	in, out := map[string][]*tensor.Tensor{}, map[string][]*tensor.Tensor{}
	for slot, names := range op.Inputs {
		for _, name := range names {
			in[slot] = append(in[slot], m.Vars[name])
		}
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if name == program.Empty {
				out[slot] = append(out[slot], nil)
				continue
			}
			meta := shapes.Outs(slot)[i]
			if t := m.Vars[name]; t == nil || t.DType() != meta.DType ||
				!slices.Equal(t.Dims(), meta.Stored()) || t.IsSelected() != (meta.Kind == program.SelectedRows) {
				if m.Vars[name], err = allocate(meta); err != nil {
					return nil, nil, err
				}
			}
			m.Vars[name].SetLoD(m.lodOf(meta))
			out[slot] = append(out[slot], m.Vars[name])
		}
	}
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor { return garble(must(tensor.New(dtype, int64(n)))) }
	def, _ := ops.Lookup(op.Type)
	b := ops.NewBinding(op, def, &m.Env, in, out, scratch)
	kernel, err := def.Bind(b)
	return kernel, b.Bound(), err
}

// Run binds and runs ops in order.
func (m *Interpreter) Run(ctx context.Context, list ...*program.Op) error {
	for _, op := range list {
		kernel, err := m.Bind(op)
		if err != nil {
			return err
		}
		if err := kernel(ctx); err != nil {
			return err
		}
	}
	return nil
}
