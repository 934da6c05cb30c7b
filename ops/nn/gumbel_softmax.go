package nn

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "gumbel_softmax", Class: ops.Random,
		Doc: "Draws a class of an axis of X, in a form that has a gradient (Jang et al. 2016): Out = softmax((X + G)/temperature) with G = -log(-log(U)), U uniform between 0 and 1. With hard, Out is 1 at " +
			"the largest element and 0 elsewhere, and its gradient is that of the softmax. What is drawn depends on the name of Out, the step and the place of the element in the whole batch, so it is new in " +
			"every step and the same for any number of trainers. The gradient divides by temperature, which Fluid leaves out, and Fluid's gradient with hard is 0.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float, rank 1 or more: logarithms of weights"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"},
			{Name: "Soft", Doc: "the softmax, which the gradient reads with hard; not in Fluid", Intermediate: true, Dispensable: true}},
		Attrs: []ops.Attr{{Name: "temperature", Doc: "above 0: the less, the nearer is Out to 0 and 1", Default: float32(1)},
			{Name: "hard", Doc: "whether Out is 0 and 1", Default: false}, classAxis[0]},
		Infer: func(s *ops.Shapes) error {
			if t := s.Float("temperature"); !(t > 0) || math.IsInf(t, 0) {
				return opkit.BadAttr(s, "temperature", "a number above 0")
			}
			s.Like("Soft", "X")
			return inferSoftmax(s)
		},
		Cost:      opkit.PerElement(70),
		Bind:      opkit.BindFloats("X", bindGumbelSoftmax[float32], bindGumbelSoftmax[float64]),
		MixesRows: opkit.MixesAlong("X", "axis"),
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = P*(dOut - sum(dOut*P))/temperature, P the softmax, the sum over the axis.",
		Outputs: []string{"Out", "Soft"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("Out", bindGumbelSoftmaxGrad[float32], bindGumbelSoftmaxGrad[float64]),
	})
}

func bindGumbelSoftmax[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, soft := b.In("X"), orScratch[T](b, "Out", b.In("X").Len()), b.Out("Soft")
	c := columnsOf(b, x.Dims())
	spare := memory[T](b, c, 1)
	temperature, hard := b.Float("temperature"), b.Bool("hard")
	name, step := kernel.StreamOf("gumbel_softmax", b.Op().Out("Out")), batchOf(b, "X")
	width := c.classes * c.inner
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, till int) error {
		out := tensor.Data[T](to)
		eachRun(x, step, from*width, till*width, func(at, end int, place uint64) {
			kernel.AddGumbel(out[at:end], tensor.Data[T](x)[at:end], temperature, 0, opkit.StreamAt(name, step.Step), place)
		})
		out = out[from*width : till*width]
		if spare == nil {
			kernel.Softmax(out, out, till-from, c.classes)
		} else {
			kernel.SoftmaxStrided(out, out, till-from, c.classes, c.inner, ops.Part(tensor.Data[T](spare), part, c.classes))
		}
		if soft != nil {
			copy(tensor.Data[T](soft)[from*width:till*width], out)
		}
		if hard {
			kernel.OneAtLargest(out, till-from, c.classes, c.inner)
		}
		return nil
	}})
}

func bindGumbelSoftmaxGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dout, dx := b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	if b.Bool("hard") {
		if y = b.In("Soft"); y == nil {
			return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Got("hard, without the slot Soft"), fault.Want("the softmax in Soft, without which the gradient is 0"))
		}
	}
	c := columnsOf(b, y.Dims())
	spare := memory[T](b, c, 2)
	scale := 1 / b.Float("temperature")
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, to int) error {
		d, out, g := opkit.Owned[T](dx, from, to, c.rows), opkit.Owned[T](y, from, to, c.rows), opkit.Owned[T](dout, from, to, c.rows)
		if spare == nil {
			kernel.SoftmaxGrad(d, out, g, to-from, c.classes)
		} else {
			m := ops.Part(tensor.Data[T](spare), part, 2*c.classes)
			kernel.SoftmaxStridedGrad(d, out, g, to-from, c.classes, c.inner, m[:c.classes], m[c.classes:])
		}
		kernel.Scale(d, d, T(scale), 0, true)
		return nil
	}})
}
