package ops

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Meta is what is known of a variable without its value.
type Meta struct {
	Kind     program.VarKind
	DType    tensor.DType
	Dims     []int64       // program.Unknown where open
	LoDLevel int           // levels of sequences that the rows are cut into
	Fields   []program.Var // of a reader: what one read yields

	Sequences []int64 // how many sequences each LoD level has, from the outermost; nil where open
	LoDOf     string  // the variable with which the LoD came in, itself or another; "" where nothing is known of it

	// Rows is how many rows a program.SelectedRows holds, program.Unknown where open. Dims are those of the whole, as if it held every row
	// once.
	Rows int64
}

// String names dtype and dims, such as "float32[-1 784]"; of what has none, the kind.
func (m Meta) String() string {
	switch m.Kind {
	case program.LoDTensor:
		return fmt.Sprintf("%v%v", m.DType, m.Dims)
	case program.SelectedRows:
		return fmt.Sprintf("rows of %v%v", m.DType, m.Dims)
	}
	return m.Kind.String()
}

// Stored returns the dims of the elements that a value of known dims holds: Dims, for program.SelectedRows with Rows in place of the
// first.
func (m Meta) Stored() []int64 {
	if m.Kind != program.SelectedRows || len(m.Dims) == 0 {
		return m.Dims
	}
	return append([]int64{m.Rows}, m.Dims[1:]...)
}

// MetaOf returns what a declaration says.
func MetaOf(v *program.Var) Meta {
	m := Meta{Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel, Fields: v.Fields}
	if m.Kind == program.SelectedRows {
		m.Rows = program.Unknown
	}
	return m
}

// MetaOfValue returns what a value says of itself.
func MetaOfValue(t *tensor.Tensor) Meta {
	if !t.IsSelected() {
		return Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims(), LoDLevel: len(t.LoD()), Sequences: countSequences(t.LoD())}
	}
	_, height := t.Selected()
	return Meta{Kind: program.SelectedRows, DType: t.DType(), Dims: append([]int64{height}, t.Dims()[1:]...), Rows: t.Dims()[0]}
}

// Compatible reports whether two dims lists can describe one value: equal rank, and equal extents where both are known.
func Compatible(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && a[i] != program.Unknown && b[i] != program.Unknown {
			return false
		}
	}
	return true
}

// Product multiplies extents; it is program.Unknown when one of them is, and when the product overflows.
func Product(dims []int64) int64 {
	for _, d := range dims {
		if d < 0 {
			return program.Unknown
		}
	}
	n, ok := tensor.Count(dims)
	if !ok {
		return program.Unknown
	}
	return int64(n)
}

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

// attrs reads the attributes of an op with the defaults of its definition.
type attrs struct {
	op  *program.Op
	def *Def
}

func (a attrs) fallback(name string) *program.Op {
	for _, d := range a.def.Attrs {
		if d.Name == name && d.Default != nil {
			return &program.Op{Attrs: map[string]program.Attr{name: d.Default}}
		}
	}
	return &program.Op{}
}

// Op returns the op itself.
func (a attrs) Op() *program.Op { return a.op }

// Int returns an integer attribute, its default when the op does not set it.
func (a attrs) Int(name string) int64 { return attr(a, name, (*program.Op).Int) }

// Ints returns a list of integers, its default when the op does not set it.
func (a attrs) Ints(name string) []int64 { return attr(a, name, (*program.Op).Ints) }

// Float returns a number, its default when the op does not set it.
func (a attrs) Float(name string) float64 { return attr(a, name, (*program.Op).Float) }

// Bool returns a truth value, its default when the op does not set it.
func (a attrs) Bool(name string) bool { return attr(a, name, (*program.Op).Bool) }

// Str returns a string, its default when the op does not set it.
func (a attrs) Str(name string) string { return attr(a, name, (*program.Op).Str) }

// Strs returns a list of strings, its default when the op does not set it.
func (a attrs) Strs(name string) []string { return attr(a, name, (*program.Op).Strs) }

func attr[V any](a attrs, name string, read func(*program.Op, string) (V, bool)) V {
	v, ok := read(a.op, name)
	if !ok {
		v, _ = read(a.fallback(name), name)
	}
	return v
}

// Infer runs the shape inference of op. input gives what is known of each input variable by name. The result maps output
// slots to one Meta per variable. The error is a *fault.Fault that names the op and the user's line.
func Infer(op *program.Op, input func(name string) (Meta, bool)) (*Shapes, error) {
	def, ok := Lookup(op.Type)
	if !ok {
		return nil, fault.E(fault.Unsupported, fault.On(op), fault.Got("an op type that is not registered"),
			fault.Want("one of those that `edl show ops` lists"))
	}
	if faults := def.Check(op); len(faults) > 0 {
		return nil, faults[0]
	}
	s := &Shapes{attrs: attrs{op, def}, in: map[string][]Meta{}, out: map[string][]Meta{}}
	for slot, names := range op.Inputs {
		for _, name := range names {
			m, ok := input(name)
			if !ok && name != program.Empty {
				return nil, fault.E(fault.InvalidProgram, fault.On(op), fault.Var(name),
					fault.Got("a name that no block declares"), fault.Want("a declared variable"))
			}
			s.in[slot] = append(s.in[slot], m)
		}
	}
	for slot, names := range op.Outputs {
		s.out[slot] = make([]Meta, len(names))
	}
	if err := s.checkTensors(); err != nil {
		return nil, err
	}
	if err := def.Infer(s); err != nil {
		return nil, At(op, err)
	}
	if err := s.checkInferred(); err != nil {
		return nil, err
	}
	return s, nil
}

// At completes a fault with the op's type and the user's line.
func At(op *program.Op, err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.E(fault.Internal, fault.Cause(err))
	}
	c := *f
	if c.Op == "" {
		c.Op = op.Type
	}
	if c.Line == "" {
		c.Line = op.Line()
	}
	return &c
}
