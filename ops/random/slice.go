package random

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Slice returns the op that gives the variable out the values which rows [from, to) of axis 0 have in the output of op.
// op is one of this package, whole or itself a slice; a scalar is one row, [0, 1). It fails for another op and for rows that op does
// not fill.
func Slice(op *program.Op, out string, from, to int64) (*program.Op, error) {
	if def, ok := ops.Lookup(op.Type); !ok || def.Class != ops.Random {
		return nil, fault.E(fault.InvalidArgument, fault.On(op), fault.Got("an op that draws nothing"),
			fault.Want("an initializer by chance"))
	}
	shape, _ := op.Ints(shapeAttr)
	n, ok := tensor.Count(shape)
	scalar := len(shape) == 0
	if !ok || scalar && (from != 0 || to != 1) || !scalar && (from < 0 || to < from || to > shape[0]) {
		return nil, fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(op.Out("Out")),
			fault.Gotf("rows [%d, %d)", from, to), fault.Wantf("rows within shape %v", shape))
	}
	first, _ := op.Int(firstAttr)
	if first < 0 || first > math.MaxInt64-int64(n) {
		return nil, fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.Out("Out")),
			fault.Gotf("%s = %d", firstAttr, first), fault.Want("an index of the origin"))
	}
	if from > 0 {
		first += from * (int64(n) / shape[0])
	}
	if !scalar {
		shape[0] = to - from
	}
	part := op.Clone()
	part.Outputs = map[string][]string{"Out": {out}}
	part.SetAttr(shapeAttr, shape)
	part.SetAttr(originAttr, originOf(op))
	part.SetAttr(firstAttr, first)
	return part, nil
}
