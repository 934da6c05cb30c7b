package plan

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// sequenced is a tensor that has the outer levels of the LoD of a feed.
type sequenced struct {
	value  *tensor.Tensor
	levels int
}

// showSequences gives the tensor of a variable a LoD with the right number of sequences, for kernels to see when they are bound.
func (v *variable) showSequences() {
	if v.meta.LoDLevel == 0 || v.tensor == nil {
		return
	}
	lod := make([][]int64, len(v.meta.Sequences))
	for i, n := range v.meta.Sequences {
		lod[i] = make([]int64, n+1)
	}
	v.tensor.SetLoD(lod)
}

// followers returns what has the LoD of a feed.
func (c *compiler) followers(of *variable) []sequenced {
	var list []sequenced
	for _, v := range c.order {
		if v.meta.LoDLevel > 0 && v.meta.LoDOf == of.name && v.tensor != nil {
			list = append(list, sequenced{v.tensor, v.meta.LoDLevel})
		}
	}
	return list
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
	if err := t.CheckLoD(); err != nil {
		return fault.E(fault.KindOf(err), fault.Var(f.name), fault.Cause(err))
	}
	return nil
}

// handOn gives the LoD of a tensor that was fed to all that follows it.
func (f *feed) handOn(t *tensor.Tensor) {
	lod := t.LoD()
	for _, s := range f.followers {
		s.value.SetLoD(lod[:s.levels])
	}
}
