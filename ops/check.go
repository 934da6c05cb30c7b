package ops

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Check compares the slots and attributes of op with the definition and returns every fault. It allows attributes that the definition does not
// list; Verify checks these. A fault is of kind Unsupported where Fluid has more than this build: a slot, or the value of an attribute. All other
// kinds say that no Fluid has written the op.
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
		case !set && a.Default == nil && (len(op.Inputs[a.Tensor]) > 0 || len(op.Inputs[a.Tensors]) > 0):
			continue // takeTensors sets it
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
			kind := fault.InvalidArgument
			if errors.Is(err, fault.Unsupported) {
				kind = fault.Unsupported
			}
			add(kind, "", fmt.Sprintf("attribute %s = %v", a.Name, value), err.Error())
		}
	}
	return faults
}

// forwardSlots returns the slots of the forward op if d is a gradient op. Fluid's gradient ops list all inputs and outputs of the forward op
// and their gradients, even those that they do not read.
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

// checkSlots compares the input or output slots of an op with the definition. It allows the slots in also.
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
			add(fault.Unsupported, args[name][0], side+" "+name, "one of the slots "+slotNames(slots))
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

// readable reports whether program.Op can read the attribute as the type of zero.
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
	case []string:
		_, ok = op.Strs(name)
	default:
		ok = fmt.Sprintf("%T", op.Attrs[name]) == fmt.Sprintf("%T", zero)
	}
	return ok
}

// computes reports whether an op of the class is a function of tensors.
func (c Class) computes() bool {
	return c == Compute || c == Backward || c == Random || c == Optimize
}

// checkTensors checks that kernels can hold the inputs of an op that computes.
func (s *Shapes) checkTensors() error {
	if !s.def.Class.computes() {
		return nil
	}
	for i := range s.def.Inputs {
		slot := &s.def.Inputs[i]
		metas := s.in[slot.Name]
		for i, name := range s.op.Inputs[slot.Name] {
			m := &metas[i]
			if name == program.Empty {
				continue
			}
			wrong := func(kind fault.Kind, fields ...fault.Field) error {
				return fault.E(kind, append(fields, fault.On(s.op), fault.Var(name), fault.Gotf("%s %v", slot.Name, *m))...)
			}
			sparse := fault.Unsupported // Paddle computes some ops of sparse gradients that have no kernel for them here
			if s.def.Class == Optimize && slot.Name != "Grad" {
				sparse = fault.TypeMismatch
			}
			switch {
			case m.Kind == program.SelectedRows && !slot.Rows && slot.Stored:
				return wrong(sparse, fault.Want("a dense tensor, or a persistable variable of known dims [rows, width] in a file, which has a row for each id"))
			case m.Kind == program.SelectedRows && !slot.Rows:
				return wrong(sparse, fault.Want("a dense tensor"),
					fault.Hint("this op takes no sparse gradient: look the table up without layers.Sparse"))
			case m.Kind == program.SelectedRows && (len(m.Dims) == 0 || m.Rows < program.Unknown):
				return wrong(fault.ShapeMismatch, fault.Want("rows of a tensor of at least rank 1"))
			case m.Kind != program.LoDTensor && m.Kind != program.SelectedRows:
				return wrong(fault.TypeMismatch, fault.Want("a tensor"))
			case !m.DType.Computable() && (!slot.Stored || m.DType != tensor.BFloat16):
				return wrong(fault.Unsupported, fault.Want("bool, int32, int64, float32 or float64"))
			case len(m.Dims) > tensor.MaxRank:
				return wrong(fault.TooLarge, fault.Wantf("a rank of at most %d", tensor.MaxRank))
			case slices.ContainsFunc(m.Dims, func(d int64) bool { return d < program.Unknown }):
				return wrong(fault.ShapeMismatch, fault.Want("extents of at least 0, or -1 where open"))
			}
		}
	}
	return nil
}

// checkInferred checks that Infer set a legal type for every output that the program names.
func (s *Shapes) checkInferred() error {
	if !s.def.Class.computes() {
		return nil
	}
	for i := range s.def.Outputs {
		slot := &s.def.Outputs[i]
		metas := s.out[slot.Name]
		for i, name := range s.op.Outputs[slot.Name] {
			m := &metas[i]
			if name == program.Empty {
				continue
			}
			wrong := func(kind fault.Kind, got, want string) error {
				return fault.E(kind, fault.On(s.op), fault.Var(name), fault.Got(got), fault.Want(want))
			}
			switch {
			case m.Kind == 0:
				return wrong(fault.InvalidProgram, fmt.Sprintf("variable %d in output %s", i, slot.Name), "no more variables than the op has outputs")
			case len(m.Dims) > tensor.MaxRank:
				return wrong(fault.TooLarge, fmt.Sprintf("rank %d", len(m.Dims)), fmt.Sprintf("at most %d", tensor.MaxRank))
			case m.Kind == program.SelectedRows && !slot.Rows:
				return wrong(fault.Internal, m.String(), "a dense tensor, as the op defines "+slot.Name)
			}
		}
	}
	return nil
}
