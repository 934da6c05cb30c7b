package ops

import (
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
)

// Grad is what a gradient maker sees: the forward op, the names of the gradients that have arrived for its outputs,
// and the names to write the gradients of its inputs to.
type Grad struct {
	attrs
	arrived func(variable string) bool // a gradient of this forward output exists
	wanted  func(variable string) bool // a gradient of this forward input is needed
}

// NewGrad is called by the backward pass of package optimizer.
func NewGrad(op *program.Op, def *Def, arrived, wanted func(variable string) bool) *Grad {
	return &Grad{attrs: attrs{op, def}, arrived: arrived, wanted: wanted}
}

// In returns the variables of a forward input slot.
func (g *Grad) In(slot string) []string { return g.op.Inputs[slot] }

// Out returns the variables of a forward output slot.
func (g *Grad) Out(slot string) []string { return g.op.Outputs[slot] }

// OutGrad returns the names of the gradients of a forward output slot, program.Empty where none arrived.
func (g *Grad) OutGrad(slot string) []string { return gradNames(g.op.Outputs[slot], g.arrived) }

// InGrad returns the names of the gradients of a forward input slot, program.Empty where none is needed.
func (g *Grad) InGrad(slot string) []string { return gradNames(g.op.Inputs[slot], g.wanted) }

func gradNames(names []string, exists func(string) bool) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = program.Empty
		if n != program.Empty && exists(n) {
			out[i] = program.GradName(n)
		}
	}
	return out
}

// GradOp starts an op of the gradient with the forward op's attributes: all of them for the forward op's own gradient, which
// may read any, and for another op those that it has.
func (g *Grad) GradOp(opType string) *program.Op {
	op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}
	maps.Copy(op.Attrs, g.op.Attrs)
	delete(op.Attrs, program.AttrRole)
	delete(op.Attrs, program.AttrRoleVar)
	if def, ok := Lookup(opType); ok && opType != g.op.Type+"_grad" {
		maps.DeleteFunc(op.Attrs, func(name string, _ program.Attr) bool {
			return !strings.HasPrefix(name, "op_") && !slices.ContainsFunc(def.Attrs, func(a Attr) bool { return a.Name == name })
		})
	}
	return op
}

// StandardGrad is the maker of Fluid's default: one op "<type>_grad" that reads the named forward inputs, the named forward
// outputs and the gradients of all outputs that are not intermediate, and writes the gradients of the inputs named in wrt.
func StandardGrad(inputs, outputs, wrt []string) func(*Grad) ([]*program.Op, error) {
	return func(g *Grad) ([]*program.Op, error) {
		op := g.GradOp(g.op.Type + "_grad")
		for _, slot := range inputs {
			if names := g.In(slot); len(names) > 0 {
				op.Inputs[slot] = names
			}
		}
		for _, slot := range outputs {
			if names := g.Out(slot); len(names) > 0 {
				op.Inputs[slot] = names
			}
		}
		for _, slot := range g.def.Outputs {
			if names := g.OutGrad(slot.Name); !slot.Intermediate && len(names) > 0 {
				op.Inputs[slot.Name+program.GradSuffix] = names
			}
		}
		for _, slot := range wrt {
			if names := g.InGrad(slot); len(names) > 0 {
				op.Outputs[slot+program.GradSuffix] = names
			}
		}
		return []*program.Op{op}, nil
	}
}
