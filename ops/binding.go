package ops

import (
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Binding is what Bind sees: attributes with defaults, the tensors of every slot, scratch memory, and the environment. A kernel
// keeps the *tensor.Tensor and asks for its elements on every run (tensor.Data), because a feed swaps them from
// step to step; dims never change under a bound kernel.
type Binding struct {
	attrs
	Env     *Env
	in, out map[string][]*tensor.Tensor
	scratch func(tensor.DType, int) *tensor.Tensor
	loops   []Loop
}

// NewBinding is called by executors. scratch allocates memory that is the kernel's own while it runs.
func NewBinding(op *program.Op, def *Def, env *Env, in, out map[string][]*tensor.Tensor, scratch func(tensor.DType, int) *tensor.Tensor) *Binding {
	return &Binding{attrs: attrs{op, def}, Env: env, in: in, out: out, scratch: scratch}
}

// In returns the first tensor of an input slot, nil when the slot is empty.
func (b *Binding) In(slot string) *tensor.Tensor { return firstTensor(b.in[slot]) }

// Ins returns the tensors of an input slot; a hole is nil.
func (b *Binding) Ins(slot string) []*tensor.Tensor { return b.in[slot] }

// Out returns the first tensor of an output slot, nil when nobody wants it.
func (b *Binding) Out(slot string) *tensor.Tensor { return firstTensor(b.out[slot]) }

// Outs returns the tensors of an output slot; one that nobody wants is nil.
func (b *Binding) Outs(slot string) []*tensor.Tensor { return b.out[slot] }

// Scratch returns n elements of memory with undefined content that no other kernel uses while this one runs.
func (b *Binding) Scratch(dtype tensor.DType, n int) *tensor.Tensor { return b.scratch(dtype, n) }

func firstTensor(ts []*tensor.Tensor) *tensor.Tensor {
	if len(ts) == 0 {
		return nil
	}
	return ts[0]
}
