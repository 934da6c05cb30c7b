package optimizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// forwardName returns the variable whose gradient, or part of it, is called name.
func forwardName(name string) (string, bool) {
	name, _, _ = strings.Cut(name, program.RenameMark)
	return strings.CutSuffix(name, program.GradSuffix)
}

func slots(args map[string][]string) []string { return slices.Sorted(maps.Keys(args)) }

// An argument is one place where an op writes a variable.
type argument struct {
	op    *program.Op
	slot  string
	index int
}

// gather makes one gradient of several: a variable that is used by k ops receives k parts, which are renamed to
// x@GRAD@RENAME@0 and so on, and summed directly after the last of them.
func (b *backward) gather() {
	writers := map[string][]argument{}
	for _, op := range b.steps {
		for _, slot := range slots(op.Outputs) {
			op.Outputs[slot] = slices.Clone(op.Outputs[slot])
			for i, name := range op.Outputs[slot] {
				if name != program.Empty {
					writers[name] = append(writers[name], argument{op, slot, i})
				}
			}
		}
	}
	var gathered []*program.Op
	for _, op := range b.steps {
		gathered = append(gathered, op)
		for _, name := range op.OutputNames() {
			if parts := writers[name]; len(parts) > 1 && parts[len(parts)-1].op == op {
				delete(writers, name)
				gathered = append(gathered, sumParts(name, parts))
			}
		}
	}
	b.steps = gathered
}

// sumParts renames the parts of a gradient and returns the op that sums them in the order of the backward pass.
func sumParts(name string, parts []argument) *program.Op {
	sum := &program.Op{Type: "sum", Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {name}}}
	for i, part := range parts {
		renamed := fmt.Sprintf("%s%s%d", name, program.RenameMark, i)
		part.op.Outputs[part.slot][part.index] = renamed
		sum.Inputs["X"] = append(sum.Inputs["X"], renamed)
	}
	sum.SetLine(parts[0].op.Line())
	return sum
}

// markParameters names, on the last op that writes the gradient of a parameter, the parameter and the gradient.
func (b *backward) markParameters(wrt []layers.Variable) {
	parameters := map[string]bool{}
	for _, v := range wrt {
		parameters[v.Name()] = true
	}
	for _, op := range b.steps {
		var vars []string
		for _, name := range op.OutputNames() {
			forward, ok := forwardName(name)
			if ok && parameters[forward] && name == program.GradName(forward) {
				vars = append(vars, forward, name)
			}
		}
		if len(vars) > 0 {
			op.SetAttr(program.AttrRoleVar, vars)
		}
	}
}
