package program

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Decode reads a program file of any generation of Fluid, with its startup program if the file holds one. What is older than generation B is
// brought up to date: variables, kinds, and attributes that have other names today. Ops that passes of Paddle have merged for inference, such as fc, are written as
// the ops that they are made of. The program of a pickled file gets the feed and fetch ops that
// later files have.
//
// It refuses malformed bytes and bytes above a limit before it allocates. Then it reports everything that the IR cannot hold at once, as a
// fault.List: empty or repeated names, attributes without a value. It does not check what the program means; call Verify on a program that comes
// from outside. Encode writes back fields that this package does not know.
func Decode(data []byte, limits Limits) (*Program, error) {
	limits = limits.withDefaults()
	if isPickle(data) {
		return decodePickled(data, limits)
	}
	f := formToday
	if int64(len(data)) <= limits.Bytes {
		if f = formOf(data); f != formToday {
			data = upgrade(data, f)
		}
	}
	if err := scan(data, limits); err != nil {
		return nil, err
	}
	desc := new(framework.ProgramDesc)
	if err := proto.Unmarshal(data, desc); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "program", plainError(err))
	}
	var d decoder
	p := d.program(desc)
	if desc.StartupProgram != nil {
		startup := new(framework.ProgramDesc)
		if err := proto.Unmarshal(desc.StartupProgram, startup); err != nil {
			return nil, fault.Wrap(fault.Corrupt, "startup program", plainError(err))
		}
		d.prefix = startupPrefix
		p.Startup = d.program(startup)
	}
	if err := d.report.err(); err != nil {
		return nil, err
	}
	readEarliest(p)
	if p.Startup != nil {
		readEarliest(p.Startup)
	}
	readLater(p)
	readCollective(p)
	inlineParallel(p)
	readBlockGradients(p)
	emptyUndeclared(p)
	nameRates(p)
	countAllSteps(p)
	declareMetrics(p)
	renameAliases(p)
	completeGradients(p)
	moveToUpdate(p)
	useMasters(p)
	carry(p)
	separate(p)
	splitFused(p)
	declareDeterminants(p)
	giveSingleNumbers(p)
	readTables(p)
	both := []*Program{p}
	if p.Startup != nil {
		both = append(both, p.Startup)
	}
	roles := ofRole(p)
	if !roles {
		unmark(p)
		findRoles(p)
	}
	for _, p := range both {
		if !roles {
			widen(p)
		}
		feedReaders(p)
		makeDense(p)
	}
	return p, nil
}

// startupPrefix begins the place of faults in a startup program.
const startupPrefix = "startup program, "

type decoder struct {
	report report
	prefix string // of Where
	where  string // present block and op or variable
}

func (d *decoder) fault(kind fault.Kind, got, want string) *fault.Fault {
	f := fault.E(kind, fault.At(d.prefix+d.where), fault.Got(got), fault.Want(want))
	d.report.add(f)
	return f
}

func (d *decoder) program(desc *framework.ProgramDesc) *Program {
	p := &Program{Version: version(desc)}
	for i, block := range desc.Blocks {
		p.Blocks = append(p.Blocks, d.block(p, i, block))
	}
	if len(p.Blocks) == 0 {
		d.where = "program"
		d.fault(fault.Corrupt, "no block", "at least one")
	}
	rest := &framework.ProgramDesc{OpCompatibleMap: desc.OpCompatibleMap, OpVersionMap: desc.OpVersionMap, Version: versionRest(desc)}
	rest.ProtoReflect().SetUnknown(desc.ProtoReflect().GetUnknown())
	p.rest = marshalRest(rest)
	return p
}

// version reads the version of a file of any generation: field 4, or field 2 in generation B.
func version(desc *framework.ProgramDesc) int64 {
	if desc.Version != nil {
		return desc.Version.GetVersion()
	}
	return desc.LegacyVersion.GetVersion()
}

// versionRest returns the version message without the number, nil if nothing is left.
func versionRest(desc *framework.ProgramDesc) *framework.Version {
	from := desc.Version
	if from == nil {
		from = desc.LegacyVersion
	}
	if from == nil || len(from.ProtoReflect().GetUnknown()) == 0 {
		return nil
	}
	rest := new(framework.Version)
	rest.ProtoReflect().SetUnknown(from.ProtoReflect().GetUnknown())
	return rest
}

func (d *decoder) block(p *Program, index int, desc *framework.BlockDesc) *Block {
	b := &Block{Index: index, Parent: int(desc.GetParentIdx()), Forward: int(desc.GetForwardBlockIdx()), program: p, unknown: unknownOf(desc)}
	d.where = fmt.Sprintf("block %d", index)
	if desc.Idx == nil || desc.ParentIdx == nil {
		d.fault(fault.InvalidProgram, "a block without idx or parent_idx", "both")
	} else if int(desc.GetIdx()) != index {
		d.fault(fault.InvalidProgram, fmt.Sprintf("idx %d", desc.GetIdx()), fmt.Sprint(index))
	}
	b.vars = make(map[string]*Var, len(desc.Vars))
	b.order = make([]string, 0, len(desc.Vars))
	for i, v := range desc.Vars {
		d.where = fmt.Sprintf("block %d, variable %d", index, i)
		d.variable(b, v)
	}
	b.Ops = make([]*Op, 0, len(desc.Ops))
	for i, op := range desc.Ops {
		d.where = fmt.Sprintf("block %d, op %d", index, i)
		b.Ops = append(b.Ops, d.op(op))
	}
	return b
}

// unknownOf returns the fields of a message that framework.proto does not have, nil if there are none.
func unknownOf(m proto.Message) []byte {
	if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return unknown
	}
	return nil
}

// marshalRest encodes what is left of a message after the IR has taken its part, nil if nothing is left.
func marshalRest(m proto.Message) []byte {
	rest, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || len(rest) == 0 {
		return nil
	}
	return rest
}

// takeEnum takes an enum value that framework.proto does not have. Protobuf keeps such values of later Fluid versions among the unknown fields. It
// returns the last one, and the unknown fields without any.
func takeEnum(unknown []byte, field protowire.Number) (value int32, rest []byte, found bool) {
	for len(unknown) > 0 {
		number, wire, n := protowire.ConsumeTag(unknown)
		length := n + protowire.ConsumeFieldValue(number, wire, unknown[n:])
		if number == field && wire == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(unknown[n:])
			value, found = int32(v), true
		} else {
			rest = append(rest, unknown[:length]...)
		}
		unknown = unknown[length:]
	}
	return value, rest, found
}

// noDType marks a tensor whose file gives no element type. Verify refuses it.
const noDType tensor.DType = -1

func (d *decoder) variable(b *Block, desc *framework.VarDesc) {
	v := &Var{
		Name: desc.GetName(), Persistable: desc.GetPersistable(), NeedCheckFeed: desc.GetNeedCheckFeed(),
		IsParameter: desc.GetIsParameter(), StopGradient: desc.GetStopGradient(),
	}
	switch _, twice := b.vars[v.Name]; {
	case v.Name == "":
		d.fault(fault.InvalidProgram, "a variable without a name", "a name")
		return
	case twice:
		d.fault(fault.InvalidProgram, "a second variable of this name in one block", "unique names").Variable = v.Name
		return
	case desc.Type == nil:
		d.fault(fault.InvalidProgram, "no type", "a type").Variable = v.Name
		return
	}
	d.varType(v, desc.Type)
	desc.Name, desc.Type, desc.Persistable, desc.NeedCheckFeed, desc.IsParameter, desc.StopGradient = nil, nil, nil, nil, nil, nil
	v.unknown = marshalRest(desc)
	b.vars[v.Name] = v
	b.order = append(b.order, v.Name)
}

// varType moves what the IR holds of a type into v and keeps the rest as bytes.
func (d *decoder) varType(v *Var, desc *framework.VarType) {
	if desc.Type != nil {
		v.Kind = VarKind(desc.GetType())
	} else {
		kind, rest, found := takeEnum(desc.ProtoReflect().GetUnknown(), 1)
		if !found {
			d.fault(fault.InvalidProgram, "a type without a kind", "a kind").Variable = v.Name
			return
		}
		v.Kind = VarKind(kind)
		desc.ProtoReflect().SetUnknown(rest)
	}
	desc.Type = nil
	switch v.Kind {
	case LoDTensor:
		desc.LodTensor = takeLoDTensor(v, desc.LodTensor)
	case SelectedRows:
		desc.SelectedRows = takeTensor(v, desc.SelectedRows)
	case LoDTensorArray:
		array := desc.TensorArray
		v.LoDLevel = int(array.GetLodLevel())
		if tensor := takeTensor(v, array.GetTensor()); array != nil {
			array.Tensor, array.LodLevel = tensor, nil
			if tensor == nil && unknownOf(array) == nil {
				desc.TensorArray = nil
			}
		}
	case Reader:
		for _, field := range desc.Reader.GetLodTensor() {
			f := Var{Kind: LoDTensor}
			if rest := takeLoDTensor(&f, field); rest != nil {
				f.rest = marshalRest(rest)
			}
			v.Fields = append(v.Fields, f)
		}
		if desc.Reader != nil {
			desc.Reader.LodTensor = nil
			if unknownOf(desc.Reader) == nil {
				desc.Reader = nil
			}
		}
	}
	v.rest = marshalRest(desc)
}

// takeLoDTensor moves dtype, dims and LoD level into v and returns what is left, nil if nothing is.
func takeLoDTensor(v *Var, desc *framework.VarType_LoDTensorDesc) *framework.VarType_LoDTensorDesc {
	rest := takeTensor(v, desc.GetTensor())
	if desc == nil {
		return nil
	}
	v.LoDLevel = int(desc.GetLodLevel())
	desc.Tensor, desc.LodLevel = rest, nil
	if rest == nil && unknownOf(desc) == nil {
		return nil
	}
	return desc
}

// takeTensor moves dtype and dims into v and returns what is left, nil if nothing is.
func takeTensor(v *Var, desc *framework.VarType_TensorDesc) *framework.VarType_TensorDesc {
	v.DType = noDType
	if desc == nil {
		return nil
	}
	v.Dims = desc.Dims
	unknown := desc.ProtoReflect().GetUnknown()
	if desc.DataType != nil {
		v.DType = tensor.DType(desc.GetDataType())
	} else if dtype, rest, found := takeEnum(unknown, 1); found {
		v.DType, unknown = tensor.DType(dtype), rest
	}
	if len(unknown) == 0 {
		return nil
	}
	rest := new(framework.VarType_TensorDesc)
	rest.ProtoReflect().SetUnknown(unknown)
	return rest
}

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
				d.fault(fault.InvalidProgram, "an empty variable name in slot "+fault.Quote(slot), "a name, or "+Empty+" for no variable").Op = op.Type
				break
			}
		}
		slots[slot] = desc.Arguments
		keepUnknown(op, prefix+slot, unknownOf(desc))
	}
	return slots
}

// keepUnknown stores the unknown fields of a part of the op.
func keepUnknown(op *Op, part string, unknown []byte) {
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
	keepUnknown(op, attrPrefix+name, unknownOf(desc))
}

// holdsValue reports whether any value field is set.
func holdsValue(a *framework.OpDesc_Attr) bool {
	return a.I != nil || a.F != nil || a.S != nil ||
		a.B != nil || a.L != nil || a.BlockIdx != nil || a.Float64 != nil || a.VarName != nil || a.Scalar != nil ||
		len(a.Ints) > 0 || len(a.Floats) > 0 || len(a.Strings) > 0 || len(a.Bools) > 0 || len(a.BlocksIdx) > 0 || len(a.Longs) > 0 ||
		len(a.Float64S) > 0 || len(a.VarsName) > 0 || len(a.Scalars) > 0
}
