package fluidtext

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/edl-go/edl/proto/framework"
	"google.golang.org/protobuf/proto"
)

// laterTypes begin attributes of types that package program does not write.
var laterTypes = []string{"scalar:", "scalars:", "var:", "vars:"}

// laterMark begins the value of such an attribute until the program has been encoded.
const laterMark = "fluidtext "

// writeLater writes the attributes of an encoded program that have such a type.
func writeLater(encoded []byte) ([]byte, error) {
	desc := new(framework.ProgramDesc)
	if err := proto.Unmarshal(encoded, desc); err != nil {
		return nil, err
	}
	found := false
	for _, b := range desc.Blocks {
		for _, op := range b.Ops {
			for _, a := range op.Attrs {
				text, marked := strings.CutPrefix(a.GetS(), laterMark)
				if !marked {
					continue
				}
				found = true
				a.S = nil
				if err := writeAttr(a, text); err != nil {
					return nil, fmt.Errorf("attribute %s of %s: %w", a.GetName(), op.GetType(), err)
				}
			}
		}
	}
	if !found {
		return encoded, nil
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(desc)
}

func writeAttr(a *framework.OpDesc_Attr, text string) error {
	kind, value, _ := strings.Cut(text, ":")
	switch kind {
	case "var":
		a.Type, a.VarName = framework.AttrType_VAR.Enum(), &value
	case "vars":
		a.Type, a.VarsName = framework.AttrType_VARS.Enum(), strings.Split(value, ",")
	case "scalar":
		list, err := parseScalars("[" + value + "]")
		if err != nil || len(list) != 1 {
			return fmt.Errorf("%q: one number, %v", value, err)
		}
		a.Type, a.Scalar = framework.AttrType_SCALAR.Enum(), list[0]
	default:
		list, err := parseScalars(value)
		if err != nil {
			return err
		}
		a.Type, a.Scalars = framework.AttrType_SCALARS.Enum(), list
	}
	return nil
}

// parseScalars reads a list of JSON. A number with a point is a float.
func parseScalars(text string) (list []*framework.Scalar, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var values []any
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	for _, value := range values {
		s := new(framework.Scalar)
		switch v := value.(type) {
		case bool:
			s.Type, s.B = framework.Scalar_BOOLEAN.Enum(), &v
		case json.Number:
			if n, err := v.Int64(); err == nil {
				s.Type, s.I = framework.Scalar_LONG.Enum(), &n
				break
			}
			x, err := v.Float64()
			if err != nil {
				return nil, err
			}
			s.Type, s.R = framework.Scalar_FLOAT64.Enum(), &x
		default:
			return nil, fmt.Errorf("%v: numbers and bools", value)
		}
		list = append(list, s)
	}
	return list, nil
}
