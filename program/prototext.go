package program

import (
	"regexp"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

// ProtoText returns the program in protobuf's text format, which tools made for Fluid read. It leaves out the startup program, which is a program
// of its own, and the fields of later Fluid versions, which have no names. DecodeProtoText reads the text back.
func (p *Program) ProtoText() ([]byte, error) {
	var e encoder
	desc := e.program(p)
	if err := e.report.err(); err != nil {
		return nil, err
	}
	data, err := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(desc)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "program", err)
	}
	return afterName.ReplaceAll(data, []byte("$1 ")), nil
}

// afterName finds the spaces between a field and its value. The library varies their number from build to build; this package does not, so that
// people can compare texts.
var afterName = regexp.MustCompile(`(?m)^( *[a-z_0-9]+:) +`)

// beginsText matches the first field of a program as text, behind comments.
var beginsText = regexp.MustCompile(`^(\s|#[^\n]*\n)*(blocks|version)\s*[:{]`)

// IsText reports whether a file with these first bytes holds a program in protobuf's text format. No binary program begins so.
func IsText(head []byte) bool { return beginsText.Match(head) }

// DecodeProtoText reads a program in protobuf's text format, such as the .pbtxt dumps of Fluid, with all checks of Decode. Dumps of generation B
// call field 2 "version", which this function reads as the version.
func DecodeProtoText(data []byte, limits Limits) (*Program, error) {
	limits = limits.withDefaults()
	if int64(len(data)) > limits.Bytes {
		return nil, scanner{limits: limits}.tooLarge(0, "bytes", int64(len(data)), limits.Bytes)
	}
	desc := new(framework.ProgramDesc)
	if err := prototext.Unmarshal(data, desc); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "program text", plainError(err))
	}
	encoded, err := proto.Marshal(desc)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "program text", err)
	}
	return Decode(encoded, limits)
}
