package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Check compares the slots and attributes of op with its definition and returns every fault. Attributes that the definition
// does not list are allowed: programs carry many that only Fluid's own runtime reads.
func (d *Def) Check(op *program.Op) fault.List {
	var faults fault.List
	add := func(kind fault.Kind, variable, got, want string) {
		faults.Add(fault.E(kind, fault.On(op), fault.Var(variable), fault.Got(got), fault.Want(want)))
	}
	checkSlots(op.Inputs, d.Inputs, "input", d.forwardSlots(), add)
	checkSlots(op.Outputs, d.Outputs, "output", nil, add)
	for _, a := range d.Attrs {
		value, set := op.Attrs[a.Name]
		switch {
		case !set && a.Default == nil:
			add(fault.InvalidProgram, "", "no attribute "+a.Name, fmt.Sprintf("one of type %T", a.Kind))
			continue
		case set && !readable(op, a.Name, a.zero()):
			add(fault.TypeMismatch, "", fmt.Sprintf("attribute %s of type %T", a.Name, value), fmt.Sprintf("%T", a.zero()))
			continue
		}
		if a.Check == nil || !set {
			continue
		}
		if err := a.Check(op); err != nil {
			add(fault.InvalidArgument, "", fmt.Sprintf("attribute %s = %v", a.Name, value), err.Error())
		}
	}
	return faults
}

// forwardSlots returns the slots of the forward op when d is the op of a gradient. Fluid's gradient ops list every input and
// output of the forward op and their gradients, whether they read them or not.
func (d *Def) forwardSlots() map[string]bool {
	forward, ok := Lookup(strings.TrimSuffix(d.Type, "_grad"))
	if !ok || forward == d {
		return nil
	}
	slots := map[string]bool{}
	for _, s := range slices.Concat(forward.Inputs, forward.Outputs) {
		slots[s.Name], slots[program.GradName(s.Name)] = true, true
	}
	return slots
}

// checkSlots compares the slots of one side with the definition. Those in also may be there besides.
func checkSlots(args map[string][]string, slots []Slot, side string, also map[string]bool, add func(kind fault.Kind, variable, got, want string)) {
	known := map[string]bool{}
	for _, s := range slots {
		known[s.Name] = true
		names := args[s.Name]
		if len(names) > 1 && !s.Duplicable {
			add(fault.InvalidProgram, names[1], fmt.Sprintf("%d variables in %s %s", len(names), side, s.Name), "one")
		}
		if s.Dispensable || (side == "output" && s.Intermediate) {
			continue
		}
		if len(names) == 0 || side == "input" && slices.Contains(names, program.Empty) {
			add(fault.InvalidProgram, "", fmt.Sprintf("no variable in %s %s", side, s.Name), "one")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !known[name] && !also[name] && len(args[name]) > 0 {
			add(fault.InvalidProgram, args[name][0], side+" "+name, "one of the slots "+slotNames(slots))
		}
	}
}

func slotNames(slots []Slot) string {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// readable reports whether the attribute can be read as the type of zero, with the tolerance of the readers of program.Op.
func readable(op *program.Op, name string, zero program.Attr) (ok bool) {
	switch zero.(type) {
	case int32, int64:
		_, ok = op.Int(name)
	case []int32, []int64:
		_, ok = op.Ints(name)
	case float32, float64:
		_, ok = op.Float(name)
	case []float32, []float64:
		_, ok = op.Floats(name)
	case bool:
		_, ok = op.Bool(name)
	default:
		ok = fmt.Sprintf("%T", op.Attrs[name]) == fmt.Sprintf("%T", zero)
	}
	return ok
}
