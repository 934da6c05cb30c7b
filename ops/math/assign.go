package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:      "assign",
		Doc:       "Copies: Out = X.",
		Inputs:    in("X", "any type"),
		Outputs:   out("Out", "of the shape and type of X"),
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Gradient:  assignGradient,
		Bind:      bindCopy,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

// assignGradient is assign again: dX = dOut.
func assignGradient(g *ops.Grad) ([]*program.Op, error) {
	op := g.GradOp("assign")
	op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
	return []*program.Op{op}, nil
}

// bindCopy copies the elements of X to Out.
var bindCopy = bindCopyOf("X", "Out")

// bindCopyOf copies the elements of an input slot to an output slot of equal count, which may lie in one buffer.
func bindCopyOf(from, to string) opkit.Binder {
	return opkit.BindElements(from, copyElements[float32](from, to), copyElements[float64](from, to),
		copyElements[int32](from, to), copyElements[int64](from, to), copyElements[bool](from, to))
}

func copyElements[T tensor.Element](fromSlot, toSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		from, to := b.In(fromSlot), b.Out(toSlot)
		if to == nil {
			return opkit.Nop, nil
		}
		return b.Loops(copyLoop[T](fromSlot, toSlot, from, to))
	}
}

// copyLoop copies the elements of one slot to another, unless they lie in one buffer.
func copyLoop[T tensor.Element](fromSlot, toSlot string, from, to *tensor.Tensor) ops.Loop {
	return ops.Loop{N: from.Len(), Reads: []string{fromSlot}, Writes: []string{toSlot}, Copies: true, Run: func(_, first, last int) error {
		src, dst := tensor.Data[T](from)[first:last], tensor.Data[T](to)[first:last]
		if len(src) > 0 && &src[0] != &dst[0] {
			copy(dst, src)
		}
		return nil
	}}
}
