package program

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
	"google.golang.org/protobuf/proto"
)

// Encode writes the program and its startup program as a file of generation D. Equal programs have equal bytes: attributes, slots and the variables
// of a block are sorted by name. Encode fails if a file cannot hold the program, for example an attribute with a Go type that Attr does not list.
func (p *Program) Encode() ([]byte, error) {
	var e encoder
	return e.encode(p)
}

type encoder struct {
	report         report
	prefix, where  string // of Where
	dropCallstacks bool   // leave out where user code built the ops
}

func (e *encoder) encode(p *Program) ([]byte, error) {
	desc := e.program(p)
	if p.Startup != nil {
		e.prefix = startupPrefix
		startup := e.program(p.Startup)
		if p.Startup.Startup != nil {
			e.where = "program"
			e.fault("a startup program of a startup program", "at most one")
		}
		var err error
		if desc.StartupProgram, err = marshal(startup); err != nil {
			return nil, err
		}
	}
	if err := e.report.err(); err != nil {
		return nil, err
	}
	return marshal(desc)
}

func marshal(m proto.Message) ([]byte, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return data, fault.Wrap(fault.Internal, "program", err)
}

func (e *encoder) fault(got, want string) *fault.Fault {
	f := fault.E(fault.InvalidProgram, fault.At(e.prefix+e.where), fault.Got(got), fault.Want(want))
	e.report.add(f)
	return f
}

// text returns a string unchanged and refuses one that is not UTF-8.
func (e *encoder) text(s string) *string {
	if !utf8.ValidString(s) {
		e.fault("the string "+fault.Quote(s), "UTF-8")
	}
	return &s
}

// name is text that must not be empty.
func (e *encoder) name(s string) *string {
	if s == "" {
		e.fault("an empty name", "a name")
	}
	return e.text(s)
}

func (e *encoder) int32(n int, what string) *int32 {
	if n < math.MinInt32 || n > math.MaxInt32 {
		e.fault(fmt.Sprintf("%s %d", what, n), "a 32-bit number")
	}
	return new(int32(n))
}

func (e *encoder) program(p *Program) *framework.ProgramDesc {
	desc := new(framework.ProgramDesc)
	unmarshalRest(p.rest, desc)
	if desc.Version == nil {
		desc.Version = new(framework.Version)
	}
	desc.Version.Version = &p.Version
	for i, b := range p.Blocks {
		desc.Blocks = append(desc.Blocks, e.block(i, b))
	}
	if len(p.Blocks) == 0 {
		e.where = "program"
		e.fault("no block", "at least one")
	}
	return desc
}

func (e *encoder) block(index int, b *Block) *framework.BlockDesc {
	e.where = fmt.Sprintf("block %d", index)
	if b.Index != index {
		e.fault(fmt.Sprintf("index %d", b.Index), "the position in Program.Blocks")
	}
	desc := &framework.BlockDesc{Idx: e.int32(index, "index"), ParentIdx: e.int32(b.Parent, "parent")}
	if b.Forward != NoBlock {
		desc.ForwardBlockIdx = e.int32(b.Forward, "forward block")
	}
	for _, name := range sortedKeys(b.vars) {
		e.where = fmt.Sprintf("block %d", index)
		desc.Vars = append(desc.Vars, e.variable(name, b.vars[name]))
	}
	for i, op := range b.Ops {
		e.where = fmt.Sprintf("block %d, op %d", index, i)
		desc.Ops = append(desc.Ops, e.op(op))
	}
	desc.ProtoReflect().SetUnknown(b.unknown)
	return desc
}

// unmarshalRest restores what marshalRest kept.
func unmarshalRest(rest []byte, into proto.Message) {
	if len(rest) > 0 {
		// Marshal wrote these bytes from a message of this type, so they decode.
		_ = proto.Unmarshal(rest, into)
	}
}

func (e *encoder) variable(name string, v *Var) *framework.VarDesc {
	if v.Name != name {
		e.fault("a variable that was renamed to "+fault.Quote(v.Name), "Block.Rename to rename it").Variable = name
	}
	desc := new(framework.VarDesc)
	unmarshalRest(v.unknown, desc)
	desc.Name = e.name(name)
	desc.Type = e.varType(v)
	desc.Persistable = flag(v.Persistable)
	desc.NeedCheckFeed = flag(v.NeedCheckFeed)
	desc.IsParameter = flag(v.IsParameter)
	desc.StopGradient = flag(v.StopGradient)
	return desc
}

// flag leaves out false, the default of the format.
func flag(b bool) *bool {
	if b {
		return &b
	}
	return nil
}

func (e *encoder) varType(v *Var) *framework.VarType {
	desc := new(framework.VarType)
	unmarshalRest(v.rest, desc)
	desc.Type = new(framework.VarType_Type(v.Kind))
	switch v.Kind {
	case LoDTensor:
		desc.LodTensor = e.lodTensor(v, desc.LodTensor)
	case SelectedRows:
		desc.SelectedRows = putTensor(v, desc.SelectedRows)
	case LoDTensorArray:
		if desc.TensorArray == nil {
			desc.TensorArray = new(framework.VarType_LoDTensorArrayDesc)
		}
		desc.TensorArray.Tensor = putTensor(v, desc.TensorArray.Tensor)
		desc.TensorArray.LodLevel = e.lodLevel(v)
	case Reader:
		if desc.Reader == nil {
			desc.Reader = new(framework.VarType_ReaderDesc)
		}
		for i := range v.Fields {
			field := new(framework.VarType_LoDTensorDesc)
			unmarshalRest(v.Fields[i].rest, field)
			desc.Reader.LodTensor = append(desc.Reader.LodTensor, e.lodTensor(&v.Fields[i], field))
		}
	}
	return desc
}

func (e *encoder) lodTensor(v *Var, rest *framework.VarType_LoDTensorDesc) *framework.VarType_LoDTensorDesc {
	if rest == nil {
		rest = new(framework.VarType_LoDTensorDesc)
	}
	rest.Tensor = putTensor(v, rest.Tensor)
	rest.LodLevel = e.lodLevel(v)
	return rest
}

// lodLevel leaves out zero, the default of the format.
func (e *encoder) lodLevel(v *Var) *int32 {
	if v.LoDLevel == 0 {
		return nil
	}
	return e.int32(v.LoDLevel, "LoD level")
}

func putTensor(v *Var, rest *framework.VarType_TensorDesc) *framework.VarType_TensorDesc {
	if rest == nil {
		rest = new(framework.VarType_TensorDesc)
	}
	if v.DType != noDType {
		rest.DataType = new(framework.VarType_Type(v.DType))
	}
	rest.Dims = v.Dims
	return rest
}

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
