package ops

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Meta is the type of a variable: what is known without its value.
type Meta struct {
	Kind     program.VarKind
	DType    tensor.DType
	Dims     []int64       // program.Unknown where open
	LoDLevel int           // how many levels of sequences divide the rows
	Fields   []program.Var // of a reader: the variables of one read

	Sequences []int64 // number of sequences in each LoD level, outermost first; nil if open
	LoDOf     string  // the variable that was fed with this LoD, or what an op has made it of (MakeLoD); "" if unknown

	// LoD are the offsets, where they are known: when a program with an op that MakesLoD is compiled for a batch. They are right (tensor.CheckLoD), and nobody
	// changes them.
	LoD [][]int64

	// Rows is the number of rows in a program.SelectedRows, program.Unknown if open. Dims are those of the whole tensor.
	Rows int64

	// Value is the value of a small tensor that is known before a run, because it follows from constants and dims; nil for any other. Nobody
	// changes it. Shapes.SetAt leaves it out: a type that is copied says nothing of the value.
	Value *tensor.Tensor

	// Largest is the largest of the integers, at least 0, where that is known and Value is not; nil else. Nobody changes it. Shapes.SetAt leaves it out.
	Largest *int64
}

// String returns dtype and dims, such as "float32[-1 784]", or the kind of a variable without them.
func (m Meta) String() string {
	switch m.Kind {
	case program.LoDTensor:
		return fmt.Sprintf("%v%v", m.DType, m.Dims)
	case program.SelectedRows:
		return fmt.Sprintf("rows of %v%v", m.DType, m.Dims)
	}
	return m.Kind.String()
}

// Stored returns the dims of the elements in memory: Dims, but for program.SelectedRows with Rows as the first.
func (m Meta) Stored() []int64 {
	if m.Kind != program.SelectedRows || len(m.Dims) == 0 {
		return m.Dims
	}
	return append([]int64{m.Rows}, m.Dims[1:]...)
}

// MetaOf returns the type that a declaration gives.
func MetaOf(v *program.Var) Meta {
	m := Meta{Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel, Fields: v.Fields}
	if m.Kind == program.SelectedRows {
		m.Rows = program.Unknown
	}
	return m
}

// MetaOfValue returns the type of a value.
func MetaOfValue(t *tensor.Tensor) Meta {
	if !t.IsSelected() {
		return Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims(), LoDLevel: len(t.LoD()), Sequences: countSequences(t.LoD())}
	}
	_, height := t.Selected()
	return Meta{Kind: program.SelectedRows, DType: t.DType(), Dims: append([]int64{height}, t.Dims()[1:]...), Rows: t.Dims()[0]}
}

// Compatible reports whether two lists of dims can describe one value: their ranks are equal, and so are extents that both know.
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

// Product multiplies extents. It is program.Unknown if an extent is open or the product overflows.
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

// Shapes is the view of an op that Infer and Cost get: attributes with defaults, the types of the inputs, and the types of the outputs, which
// Infer sets. The same Infer serves package layers (dims open), the verifier (compares inferred with declared types) and the executor
// (all dims known).
type Shapes struct {
	attrs
	in  map[string][]Meta
	out map[string][]Meta
	set []Meta // all of out

	undecided []Missing
	kept      any // what Infer keeps for the next time; see Keep
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

// In returns the type of the first variable of an input slot, the zero Meta if the slot is empty.
func (s *Shapes) In(slot string) Meta {
	if m := s.in[slot]; len(m) > 0 {
		return m[0]
	}
	return Meta{}
}

// Ins returns the types of all variables of an input slot.
func (s *Shapes) Ins(slot string) []Meta { return s.in[slot] }

// Outs returns the types that Infer set for an output slot.
func (s *Shapes) Outs(slot string) []Meta { return s.out[slot] }

// Set gives all variables of an output slot a dtype and dims. It skips a slot that the op does not use.
func (s *Shapes) Set(slot string, dtype tensor.DType, dims ...int64) {
	for i := range s.out[slot] {
		s.SetAt(slot, i, Meta{Kind: program.LoDTensor, DType: dtype, Dims: dims})
	}
}

// SetAt sets the type of variable i of an output slot.
func (s *Shapes) SetAt(slot string, i int, m Meta) {
	if i < len(s.out[slot]) {
		m.Dims, m.Value, m.Largest = append([]int64(nil), m.Dims...), nil, nil
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

// Errorf makes the error of a wrong shape in an input slot. want is a format.
func (s *Shapes) Errorf(slot, want string, args ...any) error {
	return s.wrong(fault.ShapeMismatch, slot, fault.Wantf(want, args...))
}

// Rank checks the rank of an input slot.
func (s *Shapes) Rank(slot string, rank int) error {
	if len(s.In(slot).Dims) != rank {
		return s.Errorf(slot, "rank %d", rank)
	}
	return nil
}

// SameType checks that all variables of the slots have one dtype. Slots may be empty.
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

// IsFloat checks that an input slot holds float32 or float64.
func (s *Shapes) IsFloat(slot string) error {
	if !s.In(slot).DType.IsFloat() {
		return s.wrong(fault.TypeMismatch, slot, fault.Want("float32 or float64"))
	}
	return nil
}

// wrong makes the error of the type of the first variable of an input slot.
func (s *Shapes) wrong(kind fault.Kind, slot string, want fault.Field) error {
	return fault.E(kind, fault.On(s.op), fault.Var(s.op.In(slot)), fault.Gotf("%s %v", slot, s.In(slot)), want)
}

// attrs reads the attributes of an op. An attribute that the op does not set has the default of the definition.
type attrs struct {
	op  *program.Op
	def *Def
}

// fallback returns an op that has the defaults for attributes.
func (a attrs) fallback() *program.Op {
	if a.def.defaults == nil { // it was not registered
		return defaultsOf(a.def)
	}
	return a.def.defaults
}

func defaultsOf(d *Def) *program.Op {
	op := &program.Op{Attrs: map[string]program.Attr{}}
	for _, attr := range d.Attrs {
		if attr.Default != nil {
			op.Attrs[attr.Name] = attr.Default
		}
	}
	return op
}

// Op returns the op itself. Attributes that tensors give are in it (see Attr.Tensor).
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
		v, _ = read(a.fallback(), name)
	}
	return v
}

// Infer runs the shape inference of op. input returns the type of an input variable by name. The error is a *fault.Fault that names the op and
// the line of user code.
func Infer(op *program.Op, input func(name string) (Meta, bool)) (*Shapes, error) {
	def, ok := Lookup(op.Type)
	if !ok {
		return nil, Unregistered(op.Type, fault.On(op))
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
	n := 0
	for _, names := range op.Outputs {
		n += len(names)
	}
	s.set = make([]Meta, n)
	left := s.set
	for slot, names := range op.Outputs {
		s.out[slot], left = left[:len(names):len(names)], left[len(names):]
	}
	return s, infer(s, op)
}

// An Input is an input variable of an op, and the place where a Shapes keeps its type.
type Input struct {
	Name string
	Type *Meta
}

// Inputs returns the inputs of an op whose types Infer has asked for, in any order.
func Inputs(s *Shapes, op *program.Op) (inputs []Input) {
	for slot, names := range op.Inputs {
		for i, name := range names {
			if name != program.Empty {
				inputs = append(inputs, Input{name, &s.in[slot][i]})
			}
		}
	}
	return inputs
}

// InferAgain is Infer of the same op, as it is written, for other types of its inputs. The caller has set them (Inputs).
func InferAgain(s *Shapes, op *program.Op) error {
	if s.op != op {
		s.op, s.kept = op, nil // tensors gave attributes
	}
	s.undecided = s.undecided[:0]
	clear(s.set)
	return infer(s, op)
}

// Keep keeps what an Infer has made for the next inference of the same op, as it is written and with the same attributes (InferAgain). Kept returns it, nil if there
// is none.
func Keep(s *Shapes, value any) { s.kept = value }

// Kept returns what Keep has kept.
func Kept(s *Shapes) any { return s.kept }

// infer runs the inference of op, which is complete when its inputs are set.
func infer(s *Shapes, op *program.Op) error {
	if err := s.checkTensors(); err != nil {
		return err
	}
	if err := takeTensors(s); err != nil {
		return err
	}
	if err := s.def.Infer(s); err != nil {
		return At(op, err)
	}
	if err := s.checkInferred(); err != nil {
		return err
	}
	evaluate(s)
	return nil
}

// At adds the type and the user's line of op to a fault that lacks them.
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
