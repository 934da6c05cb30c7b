package ops

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

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
