package plan

import (
	"errors"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A holder is what a variable has while a block runs. Kernels keep the tensor; dims of one that is not fixed change from run to run.
type holder struct {
	tensor *tensor.Tensor
	value  any  // of one that is no tensor; see ops.NewValue
	laid   bool // a plan has laid out the tensor, and may give it other dims between two runs (Resize)
}

// A surrounding finds the variables of the blocks around one.
type surrounding interface {
	// holder returns nil for a variable that nothing holds.
	holder(name string) *holder
}

// A frame holds the variables that one block declares. It is the Scope of the plans of the block, so they all work on the same tensors.
type frame struct {
	block   *program.Block
	outer   surrounding
	forward *frame // of a block that is a gradient: the variables of the block that it is the gradient of; nil for any other
	budget  *tensor.Budget
	grain   time.Duration // Request.Grain of the plans of the block
	own     map[string]*holder
	entry   map[string]*holder // copies of variables from outside, as they are when a run of the block begins; for gradients
	links   map[string]*holder // of names that mean a variable outside
	kept    map[string]bool    // variables of the block that others read between its runs
	tapes   *tapes
}

// tapes lists the tapes in the blocks of a plan, which each run of the plan begins without.
type tapes []any

// holder implements surrounding.
func (f *frame) holder(name string) *holder {
	if h := f.links[name]; h != nil {
		return h
	}
	if h := f.own[name]; h != nil {
		return h
	}
	v, ok := f.block.Var(name)
	if !ok || v.Persistable {
		if f.forward != nil {
			if h := f.forward.left(name); h != nil {
				return h
			}
		}
		return f.outer.holder(name)
	}
	h := &holder{}
	if isTensor(v) {
		t, err := tensor.New(v.DType, 0)
		if err != nil {
			t, _ = tensor.New(tensor.Float32, 0) // until a kernel gives it a type
		}
		f.budget.Hold(t, name)
		h.tensor = t
	} else {
		h.value = ops.NewValue(v.Kind, name, f.budget)
		if _, ok := h.value.(*ops.Tape); ok {
			*f.tapes = append(*f.tapes, h.value)
		}
	}
	f.own[name] = h
	return h
}

// ranks returns what finds the rank tables that order the rows of the variables of the block, nil if there are none.
func (f *frame) ranks() func(variable string) *ops.RankTable {
	tables := ops.Ranked(f.block)
	if len(tables) == 0 {
		return nil
	}
	return func(variable string) *ops.RankTable {
		name := tables[variable]
		if name == "" {
			return nil
		}
		h := f.holder(name)
		if h == nil {
			return nil
		}
		table, _ := h.value.(*ops.RankTable)
		return table
	}
}

// reverses makes the block the gradient of another.
func (f *frame) reverses(of *reversal) {
	f.forward, f.links = of.forward.frame, map[string]*holder{}
	for inside, outside := range of.links {
		if h := f.outer.holder(outside); h != nil {
			f.links[inside] = h
			f.keep(inside)
		}
	}
}

// left returns what a run of the block has left of a variable to its gradient, nil if nothing.
func (f *frame) left(name string) *holder {
	if h := f.entry[name]; h != nil {
		return h
	}
	if v, ok := f.block.Var(name); ok && !v.Persistable {
		return f.holder(name)
	}
	return nil
}

// clear empties arrays and rank tables of the block. Tapes keep what all runs of the block have left.
func (f *frame) clear() {
	for _, h := range f.own {
		if _, tape := h.value.(*ops.Tape); !tape {
			ops.ClearValue(h.value)
		}
	}
}

// keep makes a variable of the block live in the frame, so that others find its value after a run.
func (f *frame) keep(name string) {
	if f.kept == nil {
		f.kept = map[string]bool{}
	}
	f.kept[name] = true
}

// Find implements Scope.
func (f *frame) Find(name string) (*tensor.Tensor, bool) {
	h := f.holder(name)
	if h == nil || h.tensor == nil {
		return nil, false
	}
	return h.tensor, true
}

// Var implements Scope. It gives the tensor the dims.
func (f *frame) Var(name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	t, ok := f.Find(name)
	if !ok {
		return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no tensor"), fault.Want("one, in the block or around it"))
	}
	if t.DType() == dtype && slices.Equal(t.Dims(), dims) {
		return t, nil
	}
	return t, resize(t, name, dtype, dims)
}

// resize gives a tensor of a block its type and dims. name is that of the variable, for errors.
func resize(t *tensor.Tensor, name string, dtype tensor.DType, dims []int64) error {
	err := tensor.Resize(t, dtype, dims...)
	var f *fault.Fault
	if err == nil || errors.As(err, &f) && f.Variable != "" {
		return err
	}
	return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
}

// MarkReady implements Scope. The plan of the outermost block marks what the blocks write.
func (f *frame) MarkReady(...string) {}

// tensors returns the tensors of the variables in some slots; nil for an empty name.
func (f *frame) tensors(slots map[string][]string) map[string][]*tensor.Tensor {
	bound := make(map[string][]*tensor.Tensor, len(slots))
	for slot, names := range slots {
		list := make([]*tensor.Tensor, len(names))
		for i, name := range names {
			if h := f.holder(name); name != program.Empty && h != nil {
				list[i] = h.tensor
			}
		}
		bound[slot] = list
	}
	return bound
}
