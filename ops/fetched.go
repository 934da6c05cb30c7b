package ops

import (
	"strings"

	"github.com/edl-go/edl/program"
)

// Fetches says how the numbers that trainers fetch, each of its part of a batch, become those of the whole batch. A number that the forward pass makes is averaged if it is a mean
// over the batch, such as an accuracy, added if it is a sum over it, and taken from the first trainer if it does not depend on the batch, whatever the loss is. Another
// number of the forward pass, such as the square root of a mean, is averaged. Gradients merge as the loss does.
//
// Its methods must not be called at the same time.
type Fetches struct {
	program *program.Program
	loss    Merge
	r       *reductions // of the forward pass; nil until it is asked for
	shares  *division   // likewise
	known   map[string]Merge
}

// Along says where a variable has the records of a batch.
type Along struct {
	Axis int // along which they lie
	Runs int // how many times all of them follow one another along axis 0; 0 for once
}

// NewFetches returns what to do with what p computes. loss is how gradients merge.
func NewFetches(p *program.Program, loss Merge) *Fetches {
	return &Fetches{program: p, loss: loss, known: map[string]Merge{}}
}

// Of returns how a variable of the global block merges.
func (f *Fetches) Of(name string) Merge {
	how, found := f.known[name]
	if !found {
		how = f.find(name)
		f.known[name] = how
	}
	return how
}

// Along returns where a variable of the global block, or a gradient of one, has the records of the batch: along axis 0, once, unless it is known to be otherwise, as of a network whose
// tensors begin with the steps.
func (f *Fetches) Along(name string) Along {
	if of, _, gradient := strings.Cut(name, program.GradSuffix); gradient {
		name = of
	}
	if f.shares == nil {
		r := f.forward()
		f.shares = divide(r.block, r.forward, func(name string) bool { return r.writers[name] == nil && r.isFed(name) }, r.typeOf, r.records, nil)
	}
	if f.shares.of[name] != apart {
		return Along{}
	}
	return Along{f.shares.axis[name], f.shares.runs[name]}
}

func (f *Fetches) forward() *reductions {
	if f.r == nil {
		f.r = newReductions(f.program.Global(), forwardOps(f.program.Global()))
		f.r.structure = true
	}
	return f.r
}

func (f *Fetches) find(name string) Merge {
	r := f.forward()
	if r.writers[name] == nil {
		return f.loss // a gradient, or what the update computes
	}
	if !r.batch[name] {
		return mergeOfSize(r, name)
	}
	if how, err := r.of(name); err == nil && how != MergeNone {
		return how
	}
	return MergeMean
}

// mergeOfSize returns how a number merges that no row of the batch changes. It may follow from how many rows there are.
func mergeOfSize(r *reductions, name string) Merge {
	if !fromSize(r, name) {
		return MergeFirst
	}
	one, two := r.records.known(1)[name].Value, r.records.known(2)[name].Value
	if one == nil || two == nil || one.Len() != two.Len() {
		return MergeMean
	}
	same, double := true, true
	x, y := numbersOf(one), numbersOf(two)
	for i := range x {
		same, double = same && x[i] == y[i], double && 2*x[i] == y[i]
	}
	switch {
	case same:
		return MergeFirst
	case double:
		return MergeSum
	}
	return MergeMean
}

// fromSize reports whether a number may follow from how many rows a batch has.
func fromSize(r *reductions, name string) bool {
	for name := range (totalling{reductions: r}).ancestors(name) {
		if op := r.writers[name]; op != nil {
			if def, ok := Lookup(op.Type); ok && def.FromDims {
				return true
			}
		}
	}
	return false
}

// forwardOps lists the ops of a block that are neither of the backward pass nor of the update.
func forwardOps(block *program.Block) (list []*program.Op) {
	for _, op := range block.Ops {
		if role := op.Role(); !role.Has(program.RoleBackward) && !role.Has(program.RoleOptimize) && !role.Has(program.RoleLRSched) {
			list = append(list, op)
		}
	}
	return list
}
