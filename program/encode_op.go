package program

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

func (e *encoder) op(op *Op) *framework.OpDesc {
	desc := &framework.OpDesc{Type: e.name(op.Type)}
	if op.IsTarget {
		desc.IsTarget = &op.IsTarget
	}
	desc.Inputs = e.slots(op, inputPrefix, op.Inputs)
	desc.Outputs = e.slots(op, outputPrefix, op.Outputs)
	for _, name := range sortedKeys(op.Attrs) {
		if name == AttrCallstack && e.dropCallstacks {
			continue
		}
		if a := e.attr(op, name); a != nil {
			desc.Attrs = append(desc.Attrs, a)
		}
	}
	desc.ProtoReflect().SetUnknown(op.unknown)
	return desc
}

func (e *encoder) slots(op *Op, prefix string, slots map[string][]string) []*framework.OpDesc_Var {
	var descs []*framework.OpDesc_Var
	for _, slot := range sortedKeys(slots) {
		desc := &framework.OpDesc_Var{Parameter: e.name(slot), Arguments: slots[slot]}
		for _, name := range slots[slot] {
			e.name(name)
		}
		if rest := op.rest[prefix+slot]; rest != nil {
			desc.ProtoReflect().SetUnknown(rest)
		}
		descs = append(descs, desc)
	}
	return descs
}

func (e *encoder) attr(op *Op, name string) *framework.OpDesc_Attr {
	value := op.Attrs[name]
	number, ok := attrType(value)
	if !ok {
		f := e.fault(fmt.Sprintf("attribute %s of %s", fault.Quote(name), AttrTypeName(value)), "a type that program.Attr lists")
		f.Op, f.Line = op.Type, op.Line()
		return nil
	}
	desc := new(framework.OpDesc_Attr)
	switch v := value.(type) {
	case Opaque:
		unmarshalRest(v.raw, desc)
	case string:
		e.text(v)
	case []string:
		for _, s := range v {
			e.text(s)
		}
	}
	if form, known := attrForms[number]; known {
		form.put(desc, value)
		if rest := op.rest[attrPrefix+name]; rest != nil {
			desc.ProtoReflect().SetUnknown(rest)
		}
	}
	desc.Name, desc.Type = e.name(name), new(framework.AttrType(number))
	return desc
}
