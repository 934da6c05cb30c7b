package gradcheck

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Case is one op with concrete inputs.
type Case struct {
	Name    string // what the case is about; the type of the op comes first in messages anyway
	Type    string
	Inputs  map[string][]*tensor.Tensor // floats as float64; nil is a hole
	Outputs map[string]int              // number of variables of duplicable outputs; others have one
	Attrs   map[string]program.Attr

	Want map[string][]*tensor.Tensor // outputs that must come out, within 1e-12; slots may be left out

	// Loss names the output slots that the gradient is checked from; nil means all floats that are not intermediate.
	Loss []string
	// Constant names the float input slots that no gradient flows to.
	Constant []string
	// NoFloat32 leaves out the comparison with float32, for a case whose result jumps.
	NoFloat32 bool

	Step ops.Step
}

// String names the case.
func (c Case) String() string {
	if c.Name == "" {
		return c.Type
	}
	return c.Type + "/" + c.Name
}

func variable(slot string, i int) string { return fmt.Sprint(slot, ".", i) }

// op builds the op of the case. Variables are named after their slots.
func (c Case) op() *program.Op {
	def, _ := ops.Lookup(c.Type)
	op := &program.Op{Type: c.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: c.Attrs}
	for slot, values := range c.Inputs {
		for i, t := range values {
			name := variable(slot, i)
			if t == nil {
				name = program.Empty
			}
			op.Inputs[slot] = append(op.Inputs[slot], name)
		}
	}
	for _, slot := range def.Outputs {
		n, ok := c.Outputs[slot.Name]
		if !ok {
			n = 1
		}
		for i := range n {
			op.Outputs[slot.Name] = append(op.Outputs[slot.Name], variable(slot.Name, i))
		}
	}
	return op
}

// variables returns copies of the inputs by name, floats converted to the given type.
func (c Case) variables(float tensor.DType) map[string]*tensor.Tensor {
	vars := map[string]*tensor.Tensor{}
	for slot, values := range c.Inputs {
		for i, t := range values {
			if t != nil {
				vars[variable(slot, i)] = convert(t, float)
			}
		}
	}
	return vars
}

// losses returns the outputs that the gradient is checked from.
func (c Case) losses(op *program.Op, vars map[string]*tensor.Tensor) []string {
	def, _ := ops.Lookup(c.Type)
	var names []string
	for _, slot := range def.Outputs {
		if c.Loss == nil && slot.Intermediate || c.Loss != nil && !slices.Contains(c.Loss, slot.Name) {
			continue
		}
		for _, name := range op.Outputs[slot.Name] {
			if t := vars[name]; t != nil && t.DType().IsFloat() {
				names = append(names, name)
			}
		}
	}
	return names
}

// wanted returns the inputs whose gradient is checked.
func (c Case) wanted() []string {
	var names []string
	for slot, values := range c.Inputs {
		for i, t := range values {
			if t != nil && t.DType().IsFloat() && !slices.Contains(c.Constant, slot) {
				names = append(names, variable(slot, i))
			}
		}
	}
	slices.Sort(names)
	return names
}
