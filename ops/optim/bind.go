package optim

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

func (r *rule) bind(b *ops.Binding) (ops.Kernel, error) {
	param := b.In(paramSlot)
	if param == nil {
		return nil, missing(paramSlot)
	}
	switch param.DType() {
	case tensor.Float32:
		return bindAs(r, b, r.float32)
	case tensor.Float64:
		return bindAs(r, b, r.float64)
	}
	return nil, fault.E(fault.TypeMismatch, fault.Got("Param "+param.String()), fault.Want("float32 or float64"))
}

// bindAs collects the tensors of all slots and checks them once more, because a plan is bound to tensors that no
// inference has seen.
func bindAs[T tensor.Float](r *rule, b *ops.Binding, prepare prepare[T]) (ops.Kernel, error) {
	param := b.In(paramSlot)
	updated := []state{{in: param, out: b.Out(paramOutSlot), slot: paramOutSlot}}
	for _, a := range r.accumulators {
		updated = append(updated, state{in: b.In(a.in), out: b.Out(a.out), slot: a.out, optional: !a.needed(b)})
	}
	for _, u := range updated {
		if err := u.check(param); err != nil {
			return nil, err
		}
	}
	grad := b.In(gradSlot)
	if err := checkGradient(grad, param); err != nil {
		return nil, err
	}
	var numbers []*tensor.Tensor
	for _, slot := range r.numberSlots() {
		t := b.In(slot)
		if t == nil {
			return nil, missing(slot)
		}
		if t.DType() != param.DType() || t.Len() != 1 {
			return nil, fault.E(fault.ShapeMismatch, fault.Got(slot+" "+t.String()), fault.Want("one element of "+param.DType().String()))
		}
		numbers = append(numbers, t)
	}
	update, all := prepare(b), &bound[T]{updated: updated, numbers: numbers, noRate: r.noRate}
	if grad.IsSelected() {
		return bindRows(r, b, all, update)
	}
	parts := make([]operands[T], b.Parts())
	for i := range parts {
		parts[i] = all.operands()
	}
	return b.Loops(ops.Loop{N: param.Len(), Whole: r.numberSlots(), Run: func(part, from, to int) error {
		o := &parts[part]
		all.load(o, from, to)
		o.grad = tensor.Data[T](grad)[from:to]
		update(o)
		return nil
	}})
}

// bound is what an update is bound to, but for the gradient.
type bound[T tensor.Float] struct {
	updated []state // the parameter and then the accumulators
	numbers []*tensor.Tensor
	noRate  bool // numbers do not begin with the learning rate
}

func (a *bound[T]) operands() operands[T] {
	return operands[T]{accumulators: make([][]T, len(a.updated)-1), numbers: make([]T, len(a.numbers))}
}

// load points o at elements [from, to) and reads the numbers.
func (a *bound[T]) load(o *operands[T], from, to int) {
	o.param = inPlace[T](a.updated[0], from, to)
	for i, u := range a.updated[1:] {
		o.accumulators[i] = inPlace[T](u, from, to)
	}
	given := a.numbers
	if !a.noRate {
		o.rate, given = tensor.Data[T](given[0])[0], given[1:]
	}
	for i, t := range given {
		o.numbers[i] = tensor.Data[T](t)[0]
	}
}

// A state is a tensor before and after the update, often one and the same.
type state struct {
	in, out  *tensor.Tensor
	slot     string // of out
	optional bool
}

func (u state) absent() bool { return u.optional && (u.in == nil || u.out == nil) }

func (u state) check(param *tensor.Tensor) error {
	if u.absent() {
		return nil
	}
	if err := like("the input of "+u.slot, u.in, param); err != nil {
		return err
	}
	return like(u.slot, u.out, param)
}

// like checks that t has the type and dims of the parameter.
func like(slot string, t, param *tensor.Tensor) error {
	if t == nil {
		return missing(slot)
	}
	if t.DType() != param.DType() || !slices.Equal(t.Dims(), param.Dims()) {
		return fault.E(fault.ShapeMismatch, fault.Got(slot+" "+t.String()), fault.Want(param.String()+" as Param"))
	}
	return nil
}

// inPlace returns elements [from, to) of the output, which hold the input's values: the loops update in place.
func inPlace[T tensor.Float](u state, from, to int) []T {
	if u.absent() {
		return nil
	}
	in, out := tensor.Data[T](u.in)[from:to], tensor.Data[T](u.out)[from:to]
	if len(out) > 0 && &in[0] != &out[0] {
		copy(out, in)
	}
	return out
}
