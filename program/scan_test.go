package program

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edl-go/edl/proto/framework"
)

// The scan must know every message, string and list of framework.proto, or a file could make protobuf allocate without limit.
func TestScanKnowsEveryFieldOfTheFormat(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var check func(protoreflect.MessageDescriptor, *layout)
	check = func(m protoreflect.MessageDescriptor, l *layout) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			got := l.field(field.Number())
			if field.FullName() == "paddle.framework.proto.ProgramDesc.startup_program" {
				if !got.program {
					t.Errorf("%s is not scanned as a program", field.FullName())
				}
				continue
			}
			if field.IsList() && got.counter == uncounted {
				t.Errorf("%s is repeated and not counted", field.FullName())
			}
			switch kind := field.Kind(); {
			case kind == protoreflect.StringKind && !got.text:
				t.Errorf("%s is a string and not checked", field.FullName())
			case kind == protoreflect.MessageKind && got.message == nil:
				t.Errorf("%s is a message and not scanned", field.FullName())
			case kind == protoreflect.MessageKind:
				check(field.Message(), got.message)
			case field.IsList() && kind != protoreflect.StringKind && (!got.isList || got.packed != elementType(kind)):
				t.Errorf("%s may be packed in another form", field.FullName())
			}
		}
	}
	check((&framework.ProgramDesc{}).ProtoReflect().Descriptor(), &programLayout)
	if len(seen) < 20 {
		t.Errorf("only %d messages were compared", len(seen))
	}
}

func elementType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}
