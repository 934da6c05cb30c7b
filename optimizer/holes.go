package optimizer

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A gradient op has a hole, program.Empty, where the gradient of a forward output did not arrive. What the op can do without is left
// out; elsewhere the gradient is zero and says so.

// needs reports whether op cannot run with a hole in an input slot.
func needs(op *program.Op, slot string) bool {
	if !slices.Contains(op.Inputs[slot], program.Empty) {
		return false
	}
	def, ok := ops.Lookup(op.Type)
	if !ok {
		return false
	}
	i := slices.IndexFunc(def.Inputs, func(s ops.Slot) bool { return s.Name == slot })
	return i >= 0 && !def.Inputs[i].Dispensable
}

func anyNeeds(grads []*program.Op) bool {
	for _, op := range grads {
		for slot := range op.Inputs {
			if needs(op, slot) {
				return true
			}
		}
	}
	return false
}

// fillHoles returns grads with a fill_zeros_like op for every gradient that one of them needs and that did not arrive. whole is
// the same list as it would be had all gradients arrived; it tells the name that belongs into a hole.
func fillHoles(grads, whole []*program.Op) []*program.Op {
	if len(grads) != len(whole) {
		return whole
	}
	var filled []*program.Op
	zeros := map[string]bool{}
	for i, op := range grads {
		for _, slot := range slots(op.Inputs) {
			if !needs(op, slot) {
				continue
			}
			names := slices.Clone(op.Inputs[slot])
			for j, name := range names {
				if name != program.Empty || j >= len(whole[i].Inputs[slot]) {
					continue
				}
				names[j] = whole[i].Inputs[slot][j]
				if forward, ok := forwardName(names[j]); ok && !zeros[names[j]] {
					zeros[names[j]] = true
					filled = append(filled, zeroGradient(forward, op.Line()))
				}
			}
			op.Inputs[slot] = names
		}
		filled = append(filled, op)
	}
	return filled
}

func zeroGradient(forward, line string) *program.Op {
	op := &program.Op{Type: "fill_zeros_like", Inputs: map[string][]string{"X": {forward}},
		Outputs: map[string][]string{"Out": {program.GradName(forward)}}}
	op.SetLine(line)
	return op
}

// trim drops slots that hold nothing but holes, and ops without outputs.
func trim(grads []*program.Op) []*program.Op {
	var kept []*program.Op
	for _, op := range grads {
		for _, args := range []map[string][]string{op.Inputs, op.Outputs} {
			for slot, names := range args {
				if !slices.ContainsFunc(names, func(n string) bool { return n != program.Empty }) {
					delete(args, slot)
				}
			}
		}
		if len(op.Outputs) > 0 {
			kept = append(kept, op)
		}
	}
	return kept
}
