package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// arranged gives an op whose kernels compute on [N, C, ...] its tensors in this layout. Where the program has the channels last, it adds loops before
// and after those of the op, which move the channels of scratch copies.
type arranged[T tensor.Float] struct {
	b             *ops.Binding
	last          bool
	before, after []ops.Loop
}

// in returns the elements of an input slot, nil for an empty one.
func (a *arranged[T]) in(slot string) *tensor.Tensor {
	t := a.b.In(slot)
	if !a.last || t == nil {
		return t
	}
	copied := a.b.Scratch(t.DType(), t.Len())
	a.before = append(a.before, ops.Loop{N: rowsOf(t), Apart: true, Reads: []string{slot}, Writes: []string{}, Run: a.moving(t.Dims(), copied, t, true)})
	return copied
}

// out returns where the elements of an output slot go, nil if nobody wants them.
func (a *arranged[T]) out(slot string) *tensor.Tensor {
	t := a.b.Out(slot)
	if !a.last || t == nil {
		return t
	}
	made := a.b.Scratch(t.DType(), t.Len())
	a.after = append(a.after, ops.Loop{N: rowsOf(t), Apart: true, Reads: []string{}, Writes: []string{slot}, Run: a.moving(t.Dims(), t, made, false)})
	return made
}

func rowsOf(t *tensor.Tensor) int {
	if t.Len() == 0 {
		return 0
	}
	return int(t.Dims()[0])
}

// moving makes the Run of a loop over the images of dims [N, ..., C], which become [N, C, ...] with first, and come from there without.
func (a *arranged[T]) moving(dims []int64, to, from *tensor.Tensor, first bool) func(part, begin, end int) error {
	n := int(dims[0])
	order := []int{opkit.Count(dims[1 : len(dims)-1]), int(dims[len(dims)-1])}
	if !first {
		order[0], order[1] = order[1], order[0]
	}
	plan := kernel.NewTransposePlan(order, []int{1, 0})
	size := order[0] * order[1]
	return func(_, begin, end int) error {
		out, in := opkit.Owned[T](to, begin, end, n), opkit.Owned[T](from, begin, end, n)
		for i := range end - begin {
			kernel.Transpose(&plan, out[i*size:][:size], in[i*size:][:size], 0, plan.Iterations())
		}
		return nil
	}
}

// loops makes the result of Bind from the loops of the op.
func (a *arranged[T]) loops(loops ...ops.Loop) (ops.Kernel, error) {
	if !a.last {
		return a.b.Loops(loops...)
	}
	all := a.before
	for _, l := range loops {
		l.Apart, l.TakeOver, l.Accumulate = true, nil, nil // iterations own elements of the copies
		all = append(all, l)
	}
	return a.b.Loops(append(all, a.after...)...)
}
