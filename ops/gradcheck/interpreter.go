package gradcheck

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An Interpreter runs single ops on named tensors. It is the simplest possible executor: it allocates every output and every scratch buffer apart
// and fills it with garbage.
type Interpreter struct {
	Vars map[string]*tensor.Tensor
	Env  ops.Env
}

// NewInterpreter returns an interpreter over vars, at a step.
func NewInterpreter(vars map[string]*tensor.Tensor, step ops.Step) *Interpreter {
	return &Interpreter{Vars: vars, Env: ops.Env{Step: &step}}
}

// Infer runs the shape inference of op on the present variables.
func (m *Interpreter) Infer(op *program.Op) (*ops.Shapes, error) {
	return ops.Infer(op, func(name string) (ops.Meta, bool) {
		t, ok := m.Vars[name]
		if !ok {
			return ops.Meta{}, false
		}
		meta := ops.MetaOfValue(t)
		if meta.LoDLevel > 0 {
			meta.LoDOf = name
			if tensor.CheckLoD(t) == nil {
				meta.LoD = t.LoD()
			}
		}
		if !t.IsSelected() && t.Len() <= 64 {
			meta.Value = t.Clone()
		}
		return meta, true
	})
}

// Bind infers the shapes of op, allocates outputs that do not exist in these shapes, and binds the kernel.
func (m *Interpreter) Bind(op *program.Op) (ops.Kernel, error) {
	kernel, _, err := m.bind(op)
	return kernel, err
}

func (m *Interpreter) bind(op *program.Op) (ops.Kernel, []ops.Loop, error) {
	shapes, err := m.Infer(op)
	if err == nil {
		err = shapes.Decided()
	}
	if err != nil {
		return nil, nil, err
	}
	op = shapes.Op() // with the attributes that tensors give
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

// Sequences gives t a LoD of sequences of these lengths. The lengths must add up to its rows.
func Sequences(t *tensor.Tensor, lengths ...int64) *tensor.Tensor {
	offsets := make([]int64, len(lengths)+1)
	for i, n := range lengths {
		offsets[i+1] = offsets[i] + n
	}
	t.SetLoD([][]int64{offsets})
	if err := tensor.CheckLoD(t); err != nil {
		panic(err)
	}
	return t
}

// lodOf returns the offsets of what has the LoD of a variable.
func (m *Interpreter) lodOf(meta ops.Meta) [][]int64 {
	if meta.LoDLevel == 0 || meta.LoD != nil || m.Vars[meta.LoDOf] == nil {
		return meta.LoD
	}
	return m.Vars[meta.LoDOf].LoD()[:meta.LoDLevel]
}

// lod draws offsets for a value: mostly such as cut its rows, and now and then any.
func (m mutator) lod(meta ops.Meta) [][]int64 {
	rows := int64(0)
	if len(meta.Dims) > 0 {
		rows = meta.Dims[0]
	}
	lod := make([][]int64, len(meta.Sequences))
	for level := len(lod) - 1; level >= 0; level-- {
		n := meta.Sequences[level]
		offsets := make([]int64, n+1)
		for i := range offsets {
			offsets[i] = rows * int64(i) / max(1, n)
			if m.IntN(20) == 0 {
				offsets[i] = m.extent()
			}
		}
		lod[level], rows = offsets, n
	}
	return lod
}
