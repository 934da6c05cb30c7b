package plan

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// isTensor reports whether a plan gives the variable elements: a tensor, or rows of one.
func isTensor(v *program.Var) bool {
	return v.Kind == program.LoDTensor || v.Kind == program.SelectedRows
}

// addOutput adds a variable that an op computes. Rows of a table are two pieces of memory: their elements and, in a variable without a name,
// their numbers.
func (c *compiler) addOutput(name string, meta ops.Meta, where place) error {
	if meta.Kind != program.SelectedRows {
		c.add(name, meta, where)
		return nil
	}
	if where == scoped {
		return fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("a variable that outlives the run and holds %v", meta),
			fault.Want("a dense tensor"))
	}
	numbers := c.add("", ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{meta.Rows}}, where)
	numbers.name = name + " rows" // for people
	c.add(name, meta, where).rows = numbers
	return nil
}
