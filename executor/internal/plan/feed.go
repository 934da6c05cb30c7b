package plan

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A feed is a variable that gets its value from outside.
type feed struct {
	name  string
	value *tensor.Tensor   // what kernels are bound to; it shares the elements of the tensor that was fed last
	views []*tensor.Tensor // of copies that share these elements, too

	sequences []int64     // their number in each LoD level
	followers []sequenced // tensors that have its LoD

	lod    [][]int64 // the offsets that the plan was compiled for; nil for any
	values []int64   // the integers that it was compiled for; nil for any
}

func newFeed(v *variable, variables *variables) feed {
	f := feed{name: v.name, value: v.tensor, sequences: v.meta.Sequences, followers: variables.followers(v), lod: v.meta.LoD}
	if v.meta.Value != nil {
		f.values = ops.Integers(v.meta.Value)
	}
	for _, w := range variables.order {
		if w.viewOf != nil && elementsOf(w) == v {
			f.views = append(f.views, w.tensor)
		}
	}
	return f
}

// set shares the elements of t with the variable.
func (f *feed) set(t *tensor.Tensor) error {
	if t == nil || t.DType() != f.value.DType() || !slices.Equal(t.Dims(), f.value.Dims()) {
		return fault.E(fault.ShapeMismatch, fault.Var(f.name), fault.Gotf("%s", t), fault.Want(f.value.String()))
	}
	if t.IsSelected() {
		return fault.E(fault.TypeMismatch, fault.Var(f.name), fault.Got(t.String()), fault.Want("a dense "+f.value.String()))
	}
	if err := f.checkSequences(t); err != nil {
		return err
	}
	if f.values != nil && !slices.Equal(ops.Integers(t), f.values) {
		return f.otherwise("other values")
	}
	for _, v := range f.views {
		if err := shareElements(v, t); err != nil {
			return err
		}
	}
	if err := tensor.Share(f.value, t); err != nil {
		return err
	}
	f.handOn(t)
	return nil
}

// A sequenced is a tensor that has the outer levels of the LoD of a feed.
type sequenced struct {
	value  *tensor.Tensor
	levels int
}

// checkSequences compares the LoD of a tensor with what the plan was compiled for.
func (f *feed) checkSequences(t *tensor.Tensor) error {
	lod := t.LoD()
	if len(lod) != len(f.sequences) {
		return fault.E(fault.ShapeMismatch, fault.Var(f.name), fault.Gotf("%d LoD levels", len(lod)), fault.Want(fmt.Sprint(len(f.sequences))))
	}
	for i, n := range f.sequences {
		if got := int64(len(lod[i])) - 1; got != n {
			return fault.E(fault.ShapeMismatch, fault.Var(f.name), fault.Gotf("%d sequences in LoD level %d", got, i), fault.Want(fmt.Sprint(n)))
		}
	}
	if err := tensor.CheckLoD(t); err != nil {
		return fault.E(fault.KindOf(err), fault.Var(f.name), fault.Cause(err))
	}
	if f.lod != nil && !slices.EqualFunc(lod, f.lod, slices.Equal[[]int64]) {
		return f.otherwise("other offsets")
	}
	return nil
}

// otherwise is the error of a feed that differs from what the plan was compiled for.
func (f *feed) otherwise(got string) error {
	return fault.E(fault.ShapeMismatch, fault.Var(f.name), fault.Got(got),
		fault.Want("those that the plan was compiled for, because an op makes as many rows as they say"))
}

// handOn gives the LoD of t to all followers.
func (f *feed) handOn(t *tensor.Tensor) {
	lod := t.LoD()
	for _, s := range f.followers {
		s.value.SetLoD(lod[:s.levels])
	}
}
