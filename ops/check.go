package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
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

// computes reports whether ops of the class are functions of tensors alone.
func (c Class) computes() bool {
	return c == Compute || c == Backward || c == Random || c == Optimize
}

// checkTensors checks that the inputs of an op that computes are tensors that kernels can hold.
func (s *Shapes) checkTensors() error {
	if !s.def.Class.computes() {
		return nil
	}
	for _, slot := range s.def.Inputs {
		for i, name := range s.op.Inputs[slot.Name] {
			m := s.in[slot.Name][i]
			if name == program.Empty {
				continue
			}
			wrong := &fault.Fault{}
			switch {
			case m.Kind == program.SelectedRows && !slot.Rows:
				wrong.Kind, wrong.Want, wrong.Hint = fault.TypeMismatch, "a dense tensor",
					"this op takes no sparse gradient: look the table up without layers.Sparse"
			case m.Kind == program.SelectedRows && (len(m.Dims) == 0 || m.Rows < program.Unknown):
				wrong.Kind, wrong.Want = fault.ShapeMismatch, "rows of a tensor of at least rank 1"
			case m.Kind != program.LoDTensor && m.Kind != program.SelectedRows:
				wrong.Kind, wrong.Want = fault.TypeMismatch, "a tensor"
			case !m.DType.Computable():
				wrong.Kind, wrong.Want = fault.Unsupported, "bool, int32, int64, float32 or float64"
			case len(m.Dims) > tensor.MaxRank:
				wrong.Kind, wrong.Want = fault.TooLarge, fmt.Sprintf("a rank of at most %d", tensor.MaxRank)
			case slices.ContainsFunc(m.Dims, func(d int64) bool { return d < program.Unknown }):
				wrong.Kind, wrong.Want = fault.ShapeMismatch, "extents of at least 0, or -1 where open"
			default:
				continue
			}
			wrong.Op, wrong.Variable, wrong.Line, wrong.Got = s.op.Type, name, s.op.Line(), fmt.Sprintf("%s %v", slot.Name, m)
			return wrong
		}
	}
	return nil
}

// checkInferred checks that an op that computes set every output that the program names, to a legal value.
func (s *Shapes) checkInferred() error {
	if !s.def.Class.computes() {
		return nil
	}
	for _, slot := range s.def.Outputs {
		for i, name := range s.op.Outputs[slot.Name] {
			m := s.out[slot.Name][i]
			if name == program.Empty {
				continue
			}
			wrong := &fault.Fault{Op: s.op.Type, Variable: name, Line: s.op.Line()}
			switch {
			case m.Kind == 0:
				wrong.Kind, wrong.Got, wrong.Want = fault.InvalidProgram, fmt.Sprintf("variable %d in output %s", i, slot.Name), "no more than the op yields"
			case len(m.Dims) > tensor.MaxRank:
				wrong.Kind, wrong.Got, wrong.Want = fault.TooLarge, fmt.Sprintf("rank %d", len(m.Dims)), fmt.Sprintf("at most %d", tensor.MaxRank)
			case m.Kind == program.SelectedRows && !slot.Rows:
				wrong.Kind, wrong.Got, wrong.Want = fault.Internal, m.String(), "a dense tensor, as the op says of "+slot.Name
			default:
				continue
			}
			return wrong
		}
	}
	return nil
}
