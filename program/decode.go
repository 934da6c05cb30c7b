package program

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

// Decode reads a program file of Fluid's generations B, C or D, with its startup program if it holds one.
//
// What is not well formed or over a limit is refused before anything is allocated for it; then everything that the IR cannot hold (names
// that are empty or come twice, attributes without a value) is reported at once as a fault.List. Nothing is said yet about what
// the program means: call Verify on a program that comes from outside. Fields that this package does not know survive Encode.
func Decode(data []byte, limits Limits) (*Program, error) {
	limits = limits.withDefaults()
	if isPickle(data) {
		return nil, checkForm(data)
	}
	if err := scan(data, limits); err != nil {
		return nil, err
	}
	if err := checkForm(data); err != nil {
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
	return p, nil
}

// startupPrefix begins the Where of faults in a startup program.
const startupPrefix = "startup program, "

type decoder struct {
	report report
	prefix string // of Where
	where  string // block and op or variable at hand
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

// version reads the version of a file of any generation: field 4, or field 2 of generation B.
func version(desc *framework.ProgramDesc) int64 {
	if desc.Version != nil {
		return desc.Version.GetVersion()
	}
	return desc.LegacyVersion.GetVersion()
}

// versionRest returns the version message without the number, nil when nothing is left.
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

// unknownOf returns the fields of a message that framework.proto does not have, nil when there is none.
func unknownOf(m proto.Message) []byte {
	if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return unknown
	}
	return nil
}

// marshalRest encodes what is left of a message after the IR took its part, nil when nothing is left.
func marshalRest(m proto.Message) []byte {
	rest, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || len(rest) == 0 {
		return nil
	}
	return rest
}

// takeEnum finds a number that framework.proto's enum does not have. Protobuf puts such a value among the unknown fields, as
// the value of a later Fluid version. It returns the last one and the unknown fields without any.
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
