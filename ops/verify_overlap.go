package ops

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// checkOverlap refuses an op that writes a variable which it reads, unless its definition says that this is well-defined: the slots may share a
// buffer (Def.InPlace), the output is state of the op (Def.State), or the op is of a class that computes nothing by itself. Any other kernel
// would read what it has just written.
func checkOverlap(op *program.Op, def *Def) fault.List {
	if def.Class != Compute && def.Class != Backward && def.Class != Random {
		return nil
	}
	var faults fault.List
	for _, out := range slices.Sorted(maps.Keys(op.Outputs)) {
		if _, state := def.State[out]; state {
			continue
		}
		for _, name := range op.Outputs[out] {
			for _, in := range slices.Sorted(maps.Keys(op.Inputs)) {
				if name == program.Empty || def.InPlace[out] == in || !slices.Contains(op.Inputs[in], name) {
					continue
				}
				faults.Add(fault.E(fault.InvalidProgram, fault.Var(name), fault.Gotf("one variable as input %s and output %s", in, out),
					fault.Want("another variable for the output")))
			}
		}
	}
	return faults
}
