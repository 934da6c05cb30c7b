package program

import (
	"maps"
	"slices"
)

// An Op is one operator: a type that the registry knows, variable names by slot, and attributes.
type Op struct {
	Type     string
	Inputs   map[string][]string // slot -> variable names; Empty marks a hole
	Outputs  map[string][]string
	Attrs    map[string]Attr
	IsTarget bool // Fluid's mark of an op that pruning keeps

	unknown []byte            // of OpDesc
	rest    map[string][]byte // unknown fields of slots and attributes, by a prefix and the name
}

// Reserved names of Fluid.
const (
	Empty          = "@EMPTY@"            // a hole in a list of arguments
	GradSuffix     = "@GRAD"              // gradient of a variable
	RenameMark     = "@RENAME@"           // partial gradients before they are summed
	LRDecayCounter = "@LR_DECAY_COUNTER@" // int64 step counter of learning-rate schedules
)

// GradName returns the name of the gradient of a variable.
func GradName(name string) string { return name + GradSuffix }

// In returns the first variable of an input slot, or "".
func (op *Op) In(slot string) string { return first(op.Inputs[slot]) }

// Out returns the first variable of an output slot, or "".
func (op *Op) Out(slot string) string { return first(op.Outputs[slot]) }

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// InputNames returns every variable that the op reads, in the order of slot names, without holes.
func (op *Op) InputNames() []string { return names(op.Inputs) }

// OutputNames returns every variable that the op writes, in the order of slot names, without holes.
func (op *Op) OutputNames() []string { return names(op.Outputs) }

func names(slots map[string][]string) []string {
	var all []string
	for _, slot := range sortedKeys(slots) {
		for _, name := range slots[slot] {
			if name != Empty {
				all = append(all, name)
			}
		}
	}
	return all
}

// Clone returns a copy that shares nothing with op.
func (op *Op) Clone() *Op {
	c := &Op{Type: op.Type, IsTarget: op.IsTarget, unknown: op.unknown}
	c.Inputs, c.Outputs = cloneSlots(op.Inputs), cloneSlots(op.Outputs)
	if op.Attrs != nil {
		c.Attrs = make(map[string]Attr, len(op.Attrs))
		for name, a := range op.Attrs {
			c.Attrs[name] = cloneAttr(a)
		}
	}
	c.rest = maps.Clone(op.rest)
	return c
}

func cloneSlots(slots map[string][]string) map[string][]string {
	if slots == nil {
		return nil
	}
	c := make(map[string][]string, len(slots))
	for slot, args := range slots {
		c[slot] = slices.Clone(args)
	}
	return c
}

// RenameInput replaces a variable name in all input slots.
func (op *Op) RenameInput(from, to string) { rename(op.Inputs, from, to) }

// RenameOutput replaces a variable name in all output slots.
func (op *Op) RenameOutput(from, to string) { rename(op.Outputs, from, to) }

func rename(slots map[string][]string, from, to string) {
	for _, args := range slots {
		for i := range args {
			if args[i] == from {
				args[i] = to
			}
		}
	}
}
