package program

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

func (d *decoder) op(desc *framework.OpDesc) *Op {
	op := &Op{Type: desc.GetType(), IsTarget: desc.GetIsTarget(), unknown: unknownOf(desc)}
	if op.Type == "" {
		d.fault(fault.InvalidProgram, "an op without a type", "a type")
	}
	op.Inputs = d.slots(op, inputPrefix, desc.Inputs)
	op.Outputs = d.slots(op, outputPrefix, desc.Outputs)
	if len(desc.Attrs) > 0 {
		op.Attrs = make(map[string]Attr, len(desc.Attrs))
	}
	for _, a := range desc.Attrs {
		d.attr(op, a)
	}
	return op
}

// Prefixes of the keys of Op.rest.
const (
	inputPrefix  = "i:"
	outputPrefix = "o:"
	attrPrefix   = "a:"
)

func (d *decoder) slots(op *Op, prefix string, descs []*framework.OpDesc_Var) map[string][]string {
	if len(descs) == 0 {
		return nil
	}
	slots := make(map[string][]string, len(descs))
	for _, desc := range descs {
		slot := desc.GetParameter()
		if _, twice := slots[slot]; twice || slot == "" {
			d.fault(fault.InvalidProgram, fmt.Sprintf("slot %s", fault.Quote(slot)), "a name, once").Op = op.Type
			continue
		}
		for _, name := range desc.Arguments {
			if name == "" {
				d.fault(fault.InvalidProgram, "an empty variable name in slot "+fault.Quote(slot), "a name, or "+Empty+" for a hole").Op = op.Type
				break
			}
		}
		slots[slot] = desc.Arguments
		op.keep(prefix+slot, unknownOf(desc))
	}
	return slots
}

// keep stores the unknown fields of a part of the op.
func (op *Op) keep(part string, unknown []byte) {
	if unknown == nil {
		return
	}
	if op.rest == nil {
		op.rest = map[string][]byte{}
	}
	op.rest[part] = unknown
}

func (d *decoder) attr(op *Op, desc *framework.OpDesc_Attr) {
	name := desc.GetName()
	if _, twice := op.Attrs[name]; twice || name == "" {
		d.fault(fault.InvalidProgram, "attribute "+fault.Quote(name), "a name, once").Op = op.Type
		return
	}
	attrType := int32(desc.GetType())
	if desc.Type == nil {
		later, rest, found := takeEnum(desc.ProtoReflect().GetUnknown(), 2)
		if !found {
			d.fault(fault.InvalidProgram, "attribute "+fault.Quote(name)+" without a type", "a type").Op = op.Type
			return
		}
		attrType = later
		desc.ProtoReflect().SetUnknown(rest)
	}
	desc.Name, desc.Type = nil, nil
	form, known := attrForms[attrType]
	if !known {
		op.Attrs[name] = Opaque{Type: attrType, raw: marshalRest(desc)}
		return
	}
	value, ok := form.take(desc)
	if !ok || holdsValue(desc) {
		d.fault(fault.TypeMismatch, fmt.Sprintf("attribute %s of type %s without a value of this type, or with one of another", fault.Quote(name),
			form.name), "one value, of its type").Op = op.Type
		return
	}
	op.Attrs[name] = value
	op.keep(attrPrefix+name, unknownOf(desc))
}

// holdsValue reports whether any value field is set.
func holdsValue(a *framework.OpDesc_Attr) bool {
	return a.I != nil || a.F != nil || a.S != nil ||
		a.B != nil || a.L != nil || a.BlockIdx != nil || a.Float64 != nil || a.VarName != nil || a.Scalar != nil ||
		len(a.Ints) > 0 || len(a.Floats) > 0 || len(a.Strings) > 0 || len(a.Bools) > 0 || len(a.BlocksIdx) > 0 || len(a.Longs) > 0 ||
		len(a.Float64S) > 0 || len(a.VarsName) > 0 || len(a.Scalars) > 0
}
