package ops

import (
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
)

// Grad is the view of an op that Def.Gradient gets: the forward op, the gradients of its outputs that exist, and the names for the gradients of its
// inputs.
type Grad struct {
	attrs
	arrived func(variable string) bool // reports whether a gradient of a forward output exists
	wanted  func(variable string) bool // reports whether somebody needs the gradient of a forward input
	dims    func(variable string) []int64
	block   *BlockGrad
}

// A BlockGrad is the gradient of the block of an op, as the backward pass has built it: a block that computes gradients from those of what the forward block
// writes outside of itself.
type BlockGrad struct {
	Block program.BlockIndex
	// Through lists variables of the forward op whose gradients the block changes where they are. Before the op they are those of the values after the forward
	// op, and afterwards those of the values before it.
	Through []string
	// Parts lists variables whose gradients each run of the block leaves in variables of its own, to be added up.
	Parts []string
	// Left lists variables that the forward block declares and whose gradients the op takes from the block after each run (Steps).
	Left []string
}

// NewGrad is for the backward pass of package optimizer.
func NewGrad(op *program.Op, def *Def, arrived, wanted func(variable string) bool) *Grad {
	return &Grad{attrs: attrs{op, def}, arrived: arrived, wanted: wanted}
}

// WithDims adds what is known of the dims of variables: nil of one that has none, extents may be open.
func (g *Grad) WithDims(dims func(variable string) []int64) *Grad {
	g.dims = dims
	return g
}

// WithBlock adds the gradient of the block of the op.
func (g *Grad) WithBlock(b *BlockGrad) *Grad {
	g.block = b
	return g
}

// Block returns the gradient of the block of the op, nil if there is none.
func (g *Grad) Block() *BlockGrad { return g.block }

// Dims returns the dims of the first of some variables, nil if they are unknown.
func (g *Grad) Dims(variables []string) []int64 {
	if g.dims == nil || len(variables) == 0 {
		return nil
	}
	return g.dims(variables[0])
}

// In returns the variables of a forward input slot.
func (g *Grad) In(slot string) []string { return g.op.Inputs[slot] }

// Out returns the variables of a forward output slot.
func (g *Grad) Out(slot string) []string { return g.op.Outputs[slot] }

// OutGrad returns the names of the gradients of a forward output slot, program.Empty for a gradient that does not exist.
func (g *Grad) OutGrad(slot string) []string { return gradNames(g.op.Outputs[slot], g.arrived) }

// InGrad returns the names of the gradients of a forward input slot, program.Empty for a gradient that nobody needs.
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

// GradOp makes an op of the given type without variables. It copies attributes of the forward op: all of them for the type "<forward>_grad", which
// may read any, and for another type those that it defines.
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

// StandardGrad makes the Def.Gradient that is Fluid's default. It writes one op "<type>_grad". The op reads the named forward inputs, the named
// forward outputs, and the gradients of all outputs that are not intermediate. It writes the gradients of the inputs in wrt.
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
