package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/program"
)

// A backward pass may compute parts of the forward pass again, to keep less memory (Fluid's RecomputeOptimizer): it has copies of ops, whose outputs have other names.
// A total that it makes again is that of a trainer's rows. Where the copy is one of the op that has made the total, what follows reads the total that trainers have shared.

// recomputed tells which variables the backward pass makes again, and of what.
type recomputed struct {
	made   map[string]string // by what makes it: a variable of the forward pass, which has one value in a step
	copyOf map[string]string // by variable of the backward pass: the one of the forward pass that it has the value of
}

// newRecomputed reads the ops of a block, whose forward pass ends before the op with the number end.
func newRecomputed(block *program.Block, ops []*program.Op, end int) *recomputed {
	r := &recomputed{made: map[string]string{}, copyOf: map[string]string{}}
	writes := map[string]int{}
	for _, op := range ops {
		if op.Role().Has(program.RoleOptimize) {
			continue // comes after all copies
		}
		left := map[string]string{}
		if def, ok := Lookup(op.Type); ok && def.Leaves != nil {
			left = def.Leaves(op)
		}
		for slot, names := range op.Outputs {
			if _, leaves := left[slot]; leaves {
				continue
			}
			for _, name := range names {
				writes[name]++
				if v, ok := block.Find(name); ok && v.Persistable {
					writes[name]++ // has a value before
				}
			}
		}
	}
	changes := func(name string) bool { return writes[name] > 1 }
	for _, op := range ops[:end] {
		if slices.ContainsFunc(op.InputNames(), changes) {
			continue
		}
		for slot, names := range op.Outputs {
			for i, name := range names {
				if key, ok := r.key(op, slot, i); ok && !changes(name) {
					r.made[key] = name
				}
			}
		}
	}
	return r
}

// key says what makes an output: the same key, the same value. Ops that draw, run blocks or do more than write outputs have none.
func (r *recomputed) key(op *program.Op, slot string, i int) (string, bool) {
	def, ok := Lookup(op.Type)
	if !ok || def.Class != Compute || def.Effect || len(op.SubBlocks()) > 0 {
		return "", false
	}
	attrs := maps.Clone(op.Attrs)
	for _, name := range []string{program.AttrRole, program.AttrRoleVar, program.AttrCallstack, program.AttrNamescope, program.AttrDevice} {
		delete(attrs, name)
	}
	inputs := map[string][]string{}
	for slot, names := range op.Inputs {
		for _, name := range names {
			inputs[slot] = append(inputs[slot], r.of(name))
		}
	}
	return fmt.Sprintf("%s %q %v %s %d", op.Type, inputs, attrs, slot, i), true
}

// of returns the variable of the forward pass that one has the value of, as far as is known: else itself.
func (r *recomputed) of(name string) string {
	if first, ok := r.copyOf[name]; ok {
		return first
	}
	return name
}

// note notes what an op of the backward pass makes again.
func (r *recomputed) note(op *program.Op) {
	for slot, names := range op.Outputs {
		for i, name := range names {
			if key, ok := r.key(op, slot, i); ok && r.made[key] != "" {
				r.copyOf[name] = r.made[key]
			}
		}
	}
}
