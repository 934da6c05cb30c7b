package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // shapes follow from the registered ops, so building needs all of them
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// In names variables by slot of an op.
type In map[string][]Variable

// Attrs gives attributes of an op by name. An int, int64 or float64 is converted to the type that the op declares.
type Attrs map[string]program.Attr

// Outputs are the variables that an op writes, by slot.
type Outputs struct {
	model *Model
	slots In
}

// One returns the first variable of a slot, a poisoned one if the slot is empty.
func (o Outputs) One(slot string) Variable {
	if vs := o.slots[slot]; len(vs) > 0 {
		return vs[0]
	}
	return Variable{model: o.model}
}

// All returns the variables of a slot.
func (o Outputs) All(slot string) []Variable { return o.slots[slot] }

// Op appends any registered op to m. Every output slot that is not dispensable gets one new variable. For other outputs, see OpInto.
func Op(m *Model, opType string, in In, attrs Attrs) Outputs {
	l := opLayer(m, opType, in)
	def, ok := ops.Lookup(opType)
	if !ok && !l.failed {
		l.mistake(ops.Unregistered(opType, fault.Op(opType)))
	}
	if l.failed {
		return Outputs{model: m}
	}
	out := In{}
	for _, slot := range def.Outputs {
		if !slot.Dispensable {
			out[slot.Name] = []Variable{l.temporary()}
		}
	}
	return l.finish(opType, in, attrs, out)
}

// OpInto appends any registered op to m. The op writes to the given variables. NewVariables makes new ones.
func OpInto(m *Model, opType string, in In, attrs Attrs, out In) Outputs {
	l := opLayer(m, opType, in, out)
	return l.finish(opType, in, attrs, out)
}

// NewVariables declares n variables for OpInto, with the names prefix.tmp_0 and so on. Their types follow from the op that writes them, so write
// each before you read it.
func NewVariables(m *Model, prefix string, n int) []Variable {
	l := begin(m, prefix, nil)
	vs := make([]Variable, max(n, 0))
	for i := range vs {
		vs[i] = l.temporary()
	}
	return vs
}

func opLayer(m *Model, opType string, slots ...In) *layer {
	var all []Variable
	for _, in := range slots {
		for _, slot := range sortedSlots(in) {
			all = append(all, in[slot]...)
		}
	}
	if len(all) == 0 {
		return begin(m, opType, nil)
	}
	l := start(opType, nil, nil, all...)
	if l.model != m && m != nil {
		if l.model == nil {
			m.Report(ofNoModel().In("layer "+opType, ": "))
		}
		l.model = m
		if l.failed {
			return l
		}
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(all[0].Name()), fault.Got("a variable of another model"),
			fault.Want("variables of the model that the op is appended to")))
	}
	return l
}

func (l *layer) finish(opType string, in In, attrs Attrs, out In) Outputs {
	l.write(opType, in, attrs, out)
	if l.failed {
		return Outputs{model: l.model}
	}
	return Outputs{l.model, out}
}

// convertAttrs converts attributes to the types that the op declares. So a user may write an int or a float64 for int32, int64 or float32. It
// leaves a value that does not convert, and the verifier refuses it.
func convertAttrs(op *program.Op, def *ops.Def) {
	for _, a := range def.Attrs {
		value, ok := op.Attrs[a.Name]
		if !ok {
			continue
		}
		like := a.Default
		if like == nil {
			like = a.Kind
		}
		op.Attrs[a.Name] = convert(plain(value), like)
	}
	for name, value := range op.Attrs {
		op.Attrs[name] = plain(value)
	}
}

// plain replaces Go types that the program format does not have.
func plain(value program.Attr) program.Attr {
	switch v := value.(type) {
	case int:
		return int64(v)
	case []int:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out
	case tensor.DType:
		return int32(v)
	}
	return value
}

func convert(value, like program.Attr) program.Attr {
	holder := &program.Op{Attrs: map[string]program.Attr{"": value}}
	switch like.(type) {
	case int32:
		if v, ok := holder.Int(""); ok && int64(int32(v)) == v {
			return int32(v)
		}
	case int64:
		if v, ok := holder.Int(""); ok {
			return v
		}
	case float32:
		if v, ok := holder.Float(""); ok {
			return float32(v)
		}
	case float64:
		if v, ok := holder.Float(""); ok {
			return v
		}
	case []int32:
		if v, ok := holder.Ints(""); ok && fits(v) {
			return convertSlice[int32](v)
		}
	case []int64:
		if v, ok := holder.Ints(""); ok {
			return v
		}
	case []float32:
		if v, ok := holder.Floats(""); ok {
			return convertSlice[float32](v)
		}
	case []float64:
		if v, ok := holder.Floats(""); ok {
			return v
		}
	}
	return value
}

func fits(values []int64) bool {
	for _, v := range values {
		if int64(int32(v)) != v {
			return false
		}
	}
	return true
}

func convertSlice[To int32 | float32, From int64 | float64](values []From) []To {
	out := make([]To, len(values))
	for i, v := range values {
		out[i] = To(v)
	}
	return out
}
