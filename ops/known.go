package ops

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Many ops of Fluid take the value of an attribute also from a tensor: ends of a slice, dims of a reshape. Dims are known here when a plan is compiled,
// so such a value must be known then, too. It is, if the program computes it from constants and from dims: Infer runs ops on small values that it
// knows (evaluate), and puts what it knows into the attribute (takeTensors). So Def.Infer and Def.Bind see an attribute alone.

// mostKnown is the largest number of elements of a value that inference follows. Shapes and indexes are much smaller.
const mostKnown = 64

// Open is an element of a list of integers that a tensor of unknown value will give. Infer makes of it an open extent. Bind never sees it. A single number that a
// tensor gives must be known at once, unless Attr.Opens says otherwise.
const Open int64 = math.MinInt64

// takeTensors replaces the attributes that tensors give in a copy of the op.
func takeTensors(s *Shapes) error {
	for i := range s.def.Attrs {
		a := &s.def.Attrs[i]
		slot := a.Tensors
		if len(s.op.Inputs[slot]) == 0 {
			slot = a.Tensor
		}
		if names := s.op.Inputs[slot]; slot == "" || len(names) == 0 || names[0] == program.Empty {
			continue
		}
		if err := takeTensor(s, a, slot); err != nil {
			return err
		}
	}
	return nil
}

// takeTensor replaces one attribute by the values of the variables in a slot.
func takeTensor(s *Shapes, a *Attr, slot string) error {
	var values []float64
	for i, m := range s.in[slot] {
		n := Product(m.Dims)
		if slot == a.Tensors {
			n = 1 // each gives one number
		}
		name := s.op.Inputs[slot][i]
		switch {
		case name == program.Empty || m.Value == nil && n == program.Unknown:
			return s.wrong(fault.Unsupported, slot, fault.Wantf("a tensor whose number of elements is known, for the attribute %s", a.Name))
		case m.Value != nil:
			if len(m.Value.Dims()) > 0 && slot == a.Tensors && m.Value.Len() != 1 {
				return s.Errorf(slot, "one number in each variable, for the attribute %s", a.Name)
			}
			values = append(values, numbersOf(m.Value)...)
		case n > mostKnown:
			return s.wrong(fault.Unsupported, slot, fault.Wantf("at most %d elements, for the attribute %s", mostKnown, a.Name))
		default:
			values = append(values, slices.Repeat([]float64{math.NaN()}, int(n))...)
			s.undecided = append(s.undecided, Missing{Variable: name, Attr: a.Name})
		}
	}
	return replaceAttr(s, a, slot, values)
}

// GivenAttr is true in the copy of a random op that Def.Bind sees if tensors have given its dims: these may be those of a batch, of which a trainer has a part. No program has it.
const GivenAttr = "given_by_tensors"

// replaceAttr sets an attribute in a copy of the op, which no longer has the slot that gives it. NaN stands for what is not known.
func replaceAttr(s *Shapes, a *Attr, slot string, values []float64) error {
	integers := make([]int64, len(values))
	for i, v := range values {
		if integers[i] = int64(v); math.IsNaN(v) {
			integers[i] = Open
		}
	}
	var value program.Attr = integers
	switch a.zero().(type) {
	case int32, int64, bool, float32, float64:
		if len(values) != 1 {
			return s.Errorf(slot, "one number, for the attribute %s", a.Name)
		}
	}
	if n := len(s.undecided); n > 0 && s.undecided[n-1].Attr == a.Name && (a.Whole || !isList(a.zero()) && !a.Opens) {
		return s.Decided()
	}
	switch a.zero().(type) {
	case int32, int64:
		value = integers[0]
	case bool:
		value = integers[0] != 0
	case float32, float64:
		value = values[0]
	case []float32, []float64:
		value = values
	}
	op := s.op.Clone()
	delete(op.Inputs, slot)
	op.SetAttr(a.Name, value)
	if s.def.Class == Random {
		op.SetAttr(GivenAttr, true)
	}
	s.op = op
	if a.Check == nil || slices.Contains(integers, Open) {
		return nil
	}
	if err := a.Check(op); err != nil {
		return fault.E(fault.InvalidArgument, fault.On(op), fault.Gotf("attribute %s = %v, of %s", a.Name, value, slot), fault.Want(err.Error()))
	}
	return nil
}

// isList reports whether an attribute is a list of numbers.
func isList(zero any) bool {
	switch zero.(type) {
	case int32, int64, bool, float32, float64:
		return false
	}
	return true
}

// A Missing is a variable whose value inference needs and does not know.
type Missing struct {
	Variable string
	Attr     string // that it gives; empty if it decides rows or a LoD
	Largest  bool   // of its numbers only the largest counts
}

// Undecided returns the variables that give attributes, or decide rows, and whose values inference does not know, nil if there are none.
func Undecided(s *Shapes) []Missing { return s.undecided }

// Decided fails if a tensor gives an attribute, and its value does not follow from constants and known dims. Executors call it once all dims are known.
func (s *Shapes) Decided() error {
	if len(s.undecided) == 0 {
		return closed(s)
	}
	u := s.undecided[len(s.undecided)-1]
	if u.Attr == "" {
		return fault.E(fault.Unsupported, fault.On(s.op), fault.Var(u.Variable), fault.Got("rows whose number depends on values that the program computes"),
			fault.Want("values that are fed, or that follow from constants, dims and lengths of sequences"))
	}
	return fault.E(fault.Unsupported, fault.On(s.op), fault.Var(u.Variable), fault.Gotf("%s from a tensor that depends on data", u.Attr),
		fault.Want("a tensor that the program computes from constants and from the dims of variables"))
}

// closed checks that no program writes Open into an attribute.
func closed(s *Shapes) error {
	for _, a := range s.def.Attrs {
		if a.Tensor == "" && a.Tensors == "" {
			continue
		}
		values, ok := s.op.Ints(a.Name)
		if v, single := s.op.Int(a.Name); single && a.Opens {
			values, ok = []int64{v}, true
		}
		if ok && slices.Contains(values, Open) {
			return fault.E(fault.InvalidArgument, fault.On(s.op), fault.Gotf("attribute %s = %v", a.Name, values), fault.Wantf("numbers above %d", Open))
		}
	}
	return nil
}

// evaluate runs an op whose inputs have known values, if its outputs are small too. It leaves them unknown if the kernel fails or panics: the run will
// report that.
func evaluate(s *Shapes) {
	defer func() { _ = recover() }()
	if s.def.Class != Compute || s.def.State != nil || s.def.Bind == nil {
		return
	}
	for slot, names := range s.op.Inputs {
		for i, name := range names {
			if name != program.Empty && s.in[slot][i].Value == nil {
				return
			}
		}
	}
	in, out := map[string][]*tensor.Tensor{}, map[string][]*tensor.Tensor{}
	for slot := range s.op.Inputs {
		for _, m := range s.in[slot] {
			in[slot] = append(in[slot], m.Value)
		}
	}
	for slot, names := range s.op.Outputs {
		for i, name := range names {
			m := s.out[slot][i]
			if name == program.Empty {
				out[slot] = append(out[slot], nil)
				continue
			}
			n := Product(m.Dims)
			if m.Kind != program.LoDTensor || m.LoDLevel > 0 || n == program.Unknown || n > mostKnown || !m.DType.Computable() || m.Value != nil {
				return
			}
			t, err := tensor.New(m.DType, m.Dims...)
			if err != nil {
				return
			}
			out[slot] = append(out[slot], t)
		}
	}
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		t, err := tensor.New(dtype, int64(n))
		if err != nil {
			panic(err) // which ends the evaluation
		}
		return t
	}
	kernel, err := s.def.Bind(NewBinding(s.op, s.def, &Env{Step: &Step{}}, in, out, scratch))
	if err != nil || kernel(context.Background()) != nil {
		return
	}
	for slot, values := range out {
		for i, t := range values {
			s.out[slot][i].Value = t
		}
	}
}

// SetValue gives the first variable of an output slot a known value. Most ops need not: Infer runs ops on values that it knows. It is for an op that reads
// the dims of its inputs alone.
func (s *Shapes) SetValue(slot string, value *tensor.Tensor) {
	if len(s.out[slot]) > 0 {
		s.out[slot][0].Value = value
	}
}

// numbersOf returns the elements of a tensor of a type that kernels compute with. Integers beyond 2**53 are rounded.
func numbersOf(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		switch t.DType() {
		case tensor.Float64:
			out[i] = t.Float64s()[i]
		case tensor.Float32:
			out[i] = float64(t.Float32s()[i])
		case tensor.Int64:
			out[i] = float64(t.Int64s()[i])
		case tensor.Int32:
			out[i] = float64(t.Int32s()[i])
		case tensor.Bool:
			if t.Bools()[i] {
				out[i] = 1
			}
		}
	}
	return out
}

// WrittenOnce returns the names that exactly one op of a program writes, in the block that declares them. Only their values are known where they are read:
// another op may write before or after, as in a loop, and a block may run or not. Values that outlive a run are not known.
func WrittenOnce(p *program.Program) map[string]bool {
	once := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range op.OutputNames() {
				_, again := once[name]
				_, own := b.Var(name)
				once[name] = own && !again
			}
		}
		for _, v := range b.Vars() {
			if v.Persistable {
				once[v.Name] = false
			}
		}
	}
	return once
}
