package program

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/proto/framework"
	"github.com/edl-go/edl/tensor"
)

// Types of attributes that Paddle 2 has added, as framework.proto numbers them.
const (
	attrVar     = int32(framework.AttrType_VAR)
	attrVars    = int32(framework.AttrType_VARS)
	attrScalar  = int32(framework.AttrType_SCALAR)
	attrScalars = int32(framework.AttrType_SCALARS)
)

// readLater gives attributes of the types that Paddle 2 has added the forms that ops have here: a scalar becomes a number, and variables that give an attribute become
// inputs. What it cannot read stays as it is, and Verify says so.
func readLater(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range sortedKeys(op.Attrs) {
				if a, ok := op.Attrs[name].(Opaque); ok {
					readOpaque(op, name, a)
				}
			}
			for _, name := range []string{"rtol", "atol"} { // allclose and isclose write them as text since 2.0
				if text, ok := op.Str(name); ok {
					if x, err := strconv.ParseFloat(text, 32); err == nil {
						op.Attrs[name] = float32(x)
					}
				}
			}
			if op.Type == "assign_value" || op.Type == "set_value" {
				sortValues(op)
			}
		}
	}
}

func readOpaque(op *Op, name string, a Opaque) {
	desc := new(framework.OpDesc_Attr)
	unmarshalRest(a.raw, desc)
	if unknownOf(desc) != nil {
		return
	}
	switch a.Type {
	case attrVar:
		one, _ := SlotOfAttr(name)
		giveByVariables(op, name, one, []string{desc.GetVarName()})
	case attrVars:
		_, many := SlotOfAttr(name)
		giveByVariables(op, name, many, desc.VarsName)
	case attrScalar:
		if list := numbersOf([]*framework.Scalar{desc.Scalar}); list != nil {
			op.Attrs[name] = list.first()
		}
	case attrScalars:
		if list := numbersOf(desc.Scalars); list != nil {
			op.Attrs[name] = list.all()
		}
	}
}

// SlotOfAttr returns the input slots that give an attribute: of one variable with all numbers, and of several with one number each. Decode puts the variables of an
// attribute of type VAR or VARS there. For pad_value they are PadValueTensor and PadValueTensorList.
func SlotOfAttr(attr string) (one, many string) {
	var slot strings.Builder
	for part := range strings.SplitSeq(attr, "_") {
		if part != "" {
			slot.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	slot.WriteString("Tensor")
	return slot.String(), slot.String() + "List"
}

func giveByVariables(op *Op, attr, slot string, names []string) {
	if len(names) == 0 || slices.Contains(names, "") || len(op.Inputs[slot]) > 0 {
		return
	}
	if op.Inputs == nil {
		op.Inputs = map[string][]string{}
	}
	op.Inputs[slot] = names
	delete(op.Attrs, attr)
}

// scalars are values that Paddle has written each with its own type. They are read as floats if any is one, else as integers if any is one.
type scalars struct {
	bools  []bool
	ints   []int64
	floats []float64
	kind   framework.Scalar_Type // the widest
}

// numbersOf returns nil if a value is none that EDL reads: a complex number, or one with unknown fields.
func numbersOf(values []*framework.Scalar) *scalars {
	list := scalars{kind: framework.Scalar_BOOLEAN}
	for _, v := range values {
		if v == nil || unknownOf(v) != nil {
			return nil
		}
		var integer int64
		var number float64
		switch v.GetType() {
		case framework.Scalar_BOOLEAN:
			if v.GetB() {
				integer = 1
			}
			number = float64(integer)
		case framework.Scalar_LONG:
			integer, number = v.GetI(), float64(v.GetI())
		case framework.Scalar_FLOAT64:
			integer, number = int64(v.GetR()), v.GetR()
		default:
			return nil
		}
		list.kind = max(list.kind, v.GetType())
		list.bools, list.ints, list.floats = append(list.bools, v.GetB()), append(list.ints, integer), append(list.floats, number)
	}
	return &list
}

func (s *scalars) first() Attr {
	switch s.kind {
	case framework.Scalar_BOOLEAN:
		return s.bools[0]
	case framework.Scalar_LONG:
		return s.ints[0]
	}
	return s.floats[0]
}

func (s *scalars) all() Attr {
	switch s.kind {
	case framework.Scalar_BOOLEAN:
		return s.bools
	case framework.Scalar_LONG:
		return s.ints
	}
	return s.floats
}

// sortValues moves the attribute values, which ops that hold elements have since Paddle 2.5, to the one that they have here for the element type.
func sortValues(op *Op) {
	value, ok := op.Attrs["values"]
	if !ok {
		return
	}
	dtype, _ := op.Int("dtype")
	name, list := "fp32_values", value
	switch tensor.DType(dtype) {
	case tensor.Bool:
		name, list = "bool_values", integersOf(value)
	case tensor.Int32, tensor.Int16, tensor.Int8, tensor.UInt8:
		name, list = "int32_values", integersOf(value)
	case tensor.Int64:
		name, list = "int64_values", integersOf(value)
	case tensor.Float64:
		if list = floatsOf(value); op.Type == "set_value" {
			name = "fp64_values"
		}
	default:
		list = floatsOf(value)
	}
	if list == nil {
		return
	}
	delete(op.Attrs, "values")
	if old, ok := op.Attrs[name]; !ok || IsEmptyList(old) {
		op.Attrs[name] = list
	}
}

// integersOf returns nil for what is no list of scalars.
func integersOf(a Attr) Attr {
	switch v := a.(type) {
	case []int64:
		return v
	case []bool:
		out := make([]int64, len(v))
		for i, is := range v {
			if is {
				out[i] = 1
			}
		}
		return out
	case []float64:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out
	}
	return nil
}

// floatsOf returns nil for what is no list of scalars.
func floatsOf(a Attr) Attr {
	switch v := a.(type) {
	case []float64:
		return v
	case []int64:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out
	case []bool:
		return floatsOf(integersOf(v))
	}
	return nil
}

// IsEmptyList reports whether a value is a list without elements. Fluid writes such lists with any type.
func IsEmptyList(a Attr) bool {
	switch v := a.(type) {
	case []int32:
		return len(v) == 0
	case []int64:
		return len(v) == 0
	case []float32:
		return len(v) == 0
	case []float64:
		return len(v) == 0
	case []bool:
		return len(v) == 0
	case []string:
		return len(v) == 0
	}
	return false
}
