package program

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

// Encode writes the program, with its startup program, as a file of generation D. Equal programs have equal bytes: attributes, slots and the
// variables of a block are sorted by name, whatever order they were made in. It fails on what a file cannot hold, such as an attribute of a Go type
// that Attr does not list.
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

// text passes a string on and refuses what is not UTF-8.
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
