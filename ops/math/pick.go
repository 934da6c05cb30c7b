package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Slices, flips, repetitions and paddings are ops whose output shows elements of one input (kernel.Pick). They differ in the dims of the output and in the
// rule that says what each axis shows. The gradient sums, for each element of the input, the gradients of all places that show it.

// attributes is what ops.Shapes and ops.Binding know of the attributes of an op.
type attributes interface {
	Op() *program.Op
	Int(name string) int64
	Ints(name string) []int64
	Float(name string) float64
	Str(name string) string
}

// A picking is one such op.
type picking struct {
	slot string // the input that Out shows; "" for X
	// runs returns the rule for an input of dims x and an output of dims out. dims are those of the input as the op sees it.
	runs func(b *ops.Binding, x, out []int64) (dims []int64, axes [][]kernel.Run)
	fill string   // the attribute with the value of places that show nothing; "" where none does
	keep []string // further inputs whose dims the gradient needs
	doc  string   // of the gradient
}

// register adds the op and its gradient. def has all but Bind and Cost.
func (p picking) register(def ops.Def) {
	if p.slot == "" {
		p.slot = "X"
	}
	gradient := program.GradName(p.slot)
	def.Cost = opkit.PerElement(1)
	def.Bind = opkit.BindElements(p.slot, bindPick[float32](p), bindPick[float64](p), bindPick[int32](p), bindPick[int64](p), bindPick[bool](p))
	if p.doc == "" {
		p.doc = "d" + p.slot + " sums, for each element, dOut of all places that show it."
	}
	opkit.Register(def, opkit.Gradient{
		Doc: p.doc, Inputs: append([]string{p.slot}, p.keep...), Wrt: []string{p.slot}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats(gradient, bindPickGrad[float32](p), bindPickGrad[float64](p)),
	})
}

// plan makes the plan for an input of dims x and an output of dims out.
func (p picking) plan(b *ops.Binding, x, out []int64) *kernel.PickPlan {
	dims, axes := p.runs(b, x, out)
	return kernel.NewPickPlan(ints(dims), axes)
}

func bindPick[T tensor.Element](p picking) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In(p.slot), b.Out("Out")
		plan := p.plan(b, x.Dims(), to.Dims())
		var fill T
		if p.fill != "" {
			fill = fromFloat[T](b.Float(p.fill))
		}
		n, apart := plan.Iterations()
		loop := ops.Loop{N: n, Reads: []string{p.slot}, Run: func(_, first, last int) error {
			kernel.Pick(plan, tensor.Data[T](to), tensor.Data[T](x), fill, first, last)
			return nil
		}}
		if !apart {
			loop.Whole = loop.Reads
		}
		return b.Loops(loop)
	}
}

func bindPickGrad[T tensor.Float](p picking) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dout, dx := b.In("Out@GRAD"), b.Out(program.GradName(p.slot))
		plan := p.plan(b, dx.Dims(), dout.Dims())
		n, apart := plan.Iterations()
		if apart {
			return b.Loops(ops.Loop{N: n, Reads: []string{"Out@GRAD"}, Run: func(_, first, last int) error {
				kernel.PickGrad(plan, tensor.Data[T](dx), tensor.Data[T](dout), first, last)
				return nil
			}})
		}
		return func(context.Context) error {
			kernel.PickGrad(plan, tensor.Data[T](dx), tensor.Data[T](dout), 0, n)
			return nil
		}, nil
	}
}

// fromFloat converts a number to an element, towards zero for integers. All but 0 is true.
func fromFloat[T tensor.Element](v float64) (out T) {
	switch p := any(&out).(type) {
	case *float32:
		*p = float32(v)
	case *float64:
		*p = v
	case *int32:
		*p = int32(v)
	case *int64:
		*p = int64(v)
	case *bool:
		*p = v != 0
	}
	return out
}

// tensorOf is an input that may give an attribute in place of the op itself.
func tensorOf(slot, attr string) ops.Slot {
	return ops.Slot{Name: slot, Dispensable: true, Doc: "numbers in place of " + attr}
}

// tensorsOf is an input of several variables that may give an attribute.
func tensorsOf(slot, attr string) ops.Slot {
	return ops.Slot{Name: slot, Dispensable: true, Duplicable: true,
		Doc: "variables of one number each that the program computes from constants and dims, in place of " + attr}
}
