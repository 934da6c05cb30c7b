package layers

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Variable is a value that a program will compute. It is poisoned when the layer that should have built it was used wrongly: every
// layer on a poisoned variable returns a poisoned variable and reports nothing. The zero Variable is poisoned and belongs to no model.
type Variable struct {
	model *Model
	v     *program.Var
}

// OK reports whether the variable exists.
func (v Variable) OK() bool { return v.v != nil }

// Model returns the model that the variable belongs to, also for a poisoned one; nil for the zero Variable.
func (v Variable) Model() *Model { return v.model }

// Name returns the variable's name in the program, by which it is fed and fetched; "" when poisoned.
func (v Variable) Name() string {
	if v.v == nil {
		return ""
	}
	return v.v.Name
}

// Dims returns the extents, program.Unknown where the program leaves one open, such as the batch; nil when poisoned.
func (v Variable) Dims() []int64 {
	if v.v == nil {
		return nil
	}
	return slices.Clone(v.v.Dims)
}

// DType returns the element type; that of a poisoned variable is meaningless.
func (v Variable) DType() tensor.DType {
	if v.v == nil {
		return tensor.Float32
	}
	return v.v.DType
}

// IsSparse reports whether the variable holds some rows of a table, as the gradient of a table with Sparse does.
func (v Variable) IsSparse() bool { return v.v != nil && v.v.Kind == program.SelectedRows }

// StopGradient keeps gradients from flowing through the variable, and returns it. A parameter that stops its gradient is not trained.
func (v Variable) StopGradient() Variable {
	if v.v != nil {
		v.v.StopGradient = true
	}
	return v
}

// String names the variable with its type, such as "x float32[-1 13]".
func (v Variable) String() string {
	if v.v == nil {
		return "poisoned variable"
	}
	return fmt.Sprintf("%s %v", v.v.Name, ops.MetaOf(v.v))
}

// rank returns the number of axes.
func (v Variable) rank() int { return len(v.v.Dims) }

// resolveAxis returns axis i of a variable, counted from the end when negative; it reports a mistake when there is none.
func (l *layer) resolveAxis(x Variable, i int) (int, bool) {
	rank := x.rank()
	if i < -rank || i >= rank {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("axis %d", i), fault.Wantf("an axis of %v", x)))
		return 0, false
	}
	return (i + rank) % rank, true
}
