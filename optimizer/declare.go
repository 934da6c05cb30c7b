package optimizer

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// declareOutputs declares the gradients that op writes, but for sparse ones, whose kind follows from the op.
func (b *backward) declareOutputs(op *program.Op) {
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		v, ok := b.block.Var(name)
		if !ok {
			return ops.Meta{}, false
		}
		return ops.MetaOf(v), true
	})
	for _, slot := range slots(op.Outputs) {
		for i, name := range op.Outputs[slot] {
			forward, ok := forwardName(name)
			if sparse := err == nil && shapes.Outs(slot)[i].Kind == program.SelectedRows; ok && !sparse {
				b.declare(name, forward)
			}
		}
	}
}

func (b *backward) declare(name, forward string) {
	if v, ok := b.block.Var(forward); ok {
		b.block.EnsureVar(program.Var{Name: name, Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel})
	}
}
