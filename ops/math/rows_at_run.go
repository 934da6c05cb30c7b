package math

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file have as many rows as their data says, so they are of class Control: their outputs get dims when they run.

func init() {
	ops.Register(ops.Def{
		Type: "where_index", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc:       "Finds the elements that are not 0: Out has a row of indices for each, in the order of the elements. How many there are is known only when the op has run.",
		Inputs:    in("Condition", "bool or numbers, rank 1 or more"),
		Outputs:   out("Out", "int64 [elements, rank of Condition]"),
		MixesRows: opkit.Mixes,
		Infer: func(s *ops.Shapes) error {
			rank := len(s.In("Condition").Dims)
			if err := dense(s, "Condition"); err != nil {
				return err
			}
			if rank == 0 {
				return s.Errorf("Condition", "rank 1 or more")
			}
			s.Set("Out", tensor.Int64, program.Unknown, int64(rank))
			return nil
		},
		Bind: byElement("Condition", bindWhereIndex[float32], bindWhereIndex[float64], bindWhereIndex[int32], bindWhereIndex[int64], bindWhereIndex[bool]),
	})
	ops.Register(ops.Def{
		Type: "masked_select", Class: ops.Control,
		Doc:       "Keeps the elements of X where Mask is true, in their order. How many there are is known only when the op has run.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "any type"}, {Name: "Mask", Doc: "bool, of the dims of X"}},
		Outputs:   out("Y", "of the type of X, rank 1"),
		MixesRows: opkit.Mixes,
		Infer: func(s *ops.Shapes) error {
			if err := dense(s, "X", "Mask"); err != nil {
				return err
			}
			if err := opkit.CheckType(s, "Mask", s.In("Mask").DType == tensor.Bool, "bool"); err != nil {
				return err
			}
			if !ops.Compatible(s.In("X").Dims, s.In("Mask").Dims) {
				return s.Errorf("Mask", "dims %v as in X", s.In("X").Dims)
			}
			s.Set("Y", s.In("X").DType, program.Unknown)
			return nil
		},
		Gradient: ops.StandardGrad([]string{"X", "Mask"}, nil, []string{"X"}),
		Bind:     byElement("X", bindMaskedSelect[float32], bindMaskedSelect[float64], bindMaskedSelect[int32], bindMaskedSelect[int64], bindMaskedSelect[bool]),
	})
	grad := program.GradSuffix
	ops.Register(ops.Def{
		Type: "masked_select_grad", Class: ops.Control,
		Doc:       "Puts the gradient of each element that masked_select has kept where the element was: dX is 0 where Mask is false.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "of the forward op"}, {Name: "Mask", Doc: "bool, of the dims of X"}, {Name: "Y" + grad, Doc: "the gradient of Y"}},
		Outputs:   out("X"+grad, "of the dims of X"),
		MixesRows: opkit.Mixes,
		Infer: func(s *ops.Shapes) error {
			s.Like("X"+grad, "X")
			if err := dense(s, "X", "Mask", "Y"+grad); err != nil {
				return err
			}
			if err := opkit.CheckType(s, "Mask", s.In("Mask").DType == tensor.Bool, "bool"); err != nil {
				return err
			}
			return s.SameType("X", "Y"+grad)
		},
		Bind: byElement("Y"+grad, bindMaskedSelectGrad[float32], bindMaskedSelectGrad[float64], nil, nil, nil),
	})
}

// byElement makes the Bind of an op of class Control, whose outputs have no elements yet. The element type of a slot chooses the binder.
func byElement(slot string, f32, f64, i32, i64, boolean opkit.Binder) opkit.Binder {
	binders := map[tensor.DType]opkit.Binder{tensor.Float32: f32, tensor.Float64: f64, tensor.Int32: i32, tensor.Int64: i64, tensor.Bool: boolean}
	return func(b *ops.Binding) (ops.Kernel, error) {
		if bind := binders[b.In(slot).DType()]; bind != nil {
			return bind(b)
		}
		return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Gotf("%s %v", slot, b.In(slot)), fault.Want("an element type that the op computes with"))
	}
}

// dense checks that slots hold dense tensors, which nobody checks for ops of class Control.
func dense(s *ops.Shapes, slots ...string) error {
	for _, slot := range slots {
		if err := opkit.CheckType(s, slot, s.In(slot).Kind == program.LoDTensor, "a dense tensor"); err != nil {
			return err
		}
	}
	return nil
}

// give gives t these elements. dims are those of t, but for the first extent, which give sets. t is nil if nobody wants them.
func give[T tensor.Element](t *tensor.Tensor, values []T, dims []int64) error {
	if t == nil {
		return nil
	}
	dims[0] = int64(len(values))
	if len(dims) > 1 {
		dims[0] /= dims[1]
	}
	if err := tensor.Resize(t, tensor.Of[T](), dims...); err != nil {
		return err
	}
	copy(tensor.Data[T](t), values)
	return nil
}

func bindWhereIndex[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Condition"), b.Out("Out")
	var found, place, extents []int64
	size := []int64{0, int64(len(x.Dims()))}
	return func(context.Context) error {
		var zero T
		extents = append(extents[:0], x.Dims()...)
		place = append(place[:0], extents...)
		clear(place)
		found = found[:0]
		for _, v := range tensor.Data[T](x) {
			if v != zero {
				found = append(found, place...)
			}
			for axis := len(place) - 1; axis >= 0; axis-- {
				if place[axis]++; place[axis] < extents[axis] {
					break
				}
				place[axis] = 0
			}
		}
		return give(to, found, size)
	}, nil
}

func bindMaskedSelect[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, mask, to := b.In("X"), b.In("Mask"), b.Out("Y")
	var kept []T
	size := []int64{0}
	return func(context.Context) error {
		if mask.Len() != x.Len() {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("Mask")), fault.Gotf("%v", mask.Dims()), fault.Wantf("%v, as X has", x.Dims()))
		}
		kept = kept[:0]
		for i, v := range tensor.Data[T](x) {
			if mask.Bools()[i] {
				kept = append(kept, v)
			}
		}
		return give(to, kept, size)
	}, nil
}

func bindMaskedSelectGrad[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, mask, from, to := b.In("X"), b.In("Mask"), b.In("Y"+program.GradSuffix), b.Out("X"+program.GradSuffix)
	return func(context.Context) error {
		if to == nil {
			return nil
		}
		if err := tensor.Resize(to, x.DType(), x.Dims()...); err != nil {
			return err
		}
		tensor.CopyLoD(to, x.LoD())
		tensor.Zero(to)
		grads, at := tensor.Data[T](from), 0
		for i, v := range mask.Bools() {
			if !v {
				continue
			}
			if i >= to.Len() || at >= len(grads) {
				return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("Y"+program.GradSuffix)), fault.Gotf("%d elements", len(grads)), fault.Wantf("one for each that Mask %v keeps of X %v", mask.Dims(), x.Dims()))
			}
			tensor.Data[T](to)[i] = grads[at]
			at++
		}
		return nil
	}, nil
}

// integersOf returns a function that gives a tensor integers, int64 if it is wide and else int32.
func integersOf(wide bool) func(t *tensor.Tensor, list []int64) error {
	var small []int32
	size := []int64{0}
	return func(t *tensor.Tensor, list []int64) error {
		if wide {
			return give(t, list, size)
		}
		small = small[:0]
		for _, v := range list {
			small = append(small, int32(v))
		}
		return give(t, small, size)
	}
}
