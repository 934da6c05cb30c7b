package ops

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Shapes is what Infer and Cost see of an op: attributes with defaults, what is known of the inputs, and the outputs
// that Infer fills in. The same Infer serves the DSL (dims open), the verifier (inferred against declared) and the
// executor (all dims known).
type Shapes struct {
	attrs
	in  map[string][]Meta
	out map[string][]Meta
}

// Has reports whether an input slot holds a variable.
func (s *Shapes) Has(slot string) bool {
	names := s.op.Inputs[slot]
	return len(names) > 0 && names[0] != program.Empty
}

// Wants reports whether an output slot holds a variable.
func (s *Shapes) Wants(slot string) bool {
	names := s.op.Outputs[slot]
	return len(names) > 0 && names[0] != program.Empty
}

// In returns what is known of the first variable of an input slot, the zero Meta when the slot is empty.
func (s *Shapes) In(slot string) Meta {
	if m := s.in[slot]; len(m) > 0 {
		return m[0]
	}
	return Meta{}
}

// Ins returns what is known of all variables of an input slot.
func (s *Shapes) Ins(slot string) []Meta { return s.in[slot] }

// Outs returns what Infer set for an output slot.
func (s *Shapes) Outs(slot string) []Meta { return s.out[slot] }

// Set gives all variables of an output slot a dtype and dims. A slot that the op does not use is skipped.
func (s *Shapes) Set(slot string, dtype tensor.DType, dims ...int64) {
	for i := range s.out[slot] {
		s.SetAt(slot, i, Meta{Kind: program.LoDTensor, DType: dtype, Dims: dims})
	}
}

// SetAt gives variable i of an output slot its Meta.
func (s *Shapes) SetAt(slot string, i int, m Meta) {
	if i < len(s.out[slot]) {
		m.Dims = append([]int64(nil), m.Dims...)
		s.out[slot][i] = m
	}
}

// Like gives an output slot the dtype, dims and LoD of an input slot, variable by variable.
func (s *Shapes) Like(outSlot, inSlot string) {
	for i := range s.out[outSlot] {
		if i < len(s.in[inSlot]) {
			s.SetAt(outSlot, i, s.in[inSlot][i])
		}
	}
}

// Errorf makes the fault of a wrong shape: got as it is found, want as a format.
func (s *Shapes) Errorf(slot, want string, args ...any) error {
	return fault.E(fault.ShapeMismatch, fault.On(s.op), fault.Var(s.op.In(slot)),
		fault.Gotf("%s %v", slot, s.In(slot)), fault.Wantf(want, args...))
}

// Rank checks the rank of an input slot.
func (s *Shapes) Rank(slot string, rank int) error {
	if len(s.In(slot).Dims) != rank {
		return s.Errorf(slot, "rank %d", rank)
	}
	return nil
}

// SameType checks that the slots that are present hold one dtype.
func (s *Shapes) SameType(slots ...string) error {
	var first string
	for _, slot := range slots {
		for i, m := range s.in[slot] {
			if s.op.Inputs[slot][i] == program.Empty {
				continue
			}
			if first == "" {
				first = slot
			} else if want := s.In(first).DType; m.DType != want {
				return fault.E(fault.TypeMismatch, fault.On(s.op), fault.Var(s.op.Inputs[slot][i]),
					fault.Gotf("%s %v", slot, m), fault.Wantf("%v as in %s", want, first))
			}
		}
	}
	return nil
}

// IsFloat checks that a slot holds float32 or float64.
func (s *Shapes) IsFloat(slot string) error {
	if m := s.In(slot); !m.DType.IsFloat() {
		return fault.E(fault.TypeMismatch, fault.On(s.op), fault.Var(s.op.In(slot)), fault.Gotf("%s %v", slot, m),
			fault.Want("float32 or float64"))
	}
	return nil
}
