package framework_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edl-go/edl/proto/framework"
)

func TestRealProgramsSurviveARoundTrip(t *testing.T) {
	for name, content := range modelFiles(t, "/__model__", "_program", ".bin") {
		t.Run(name, func(t *testing.T) {
			original := decodeProgram(t, content)
			if len(original.GetBlocks()) == 0 || len(original.GetBlocks()[0].GetOps()) == 0 {
				t.Fatal("decoded to a program without ops")
			}
			requireNoUnknownFields(t, original)
			if again := decodeProgram(t, encode(t, original)); !proto.Equal(original, again) {
				t.Error("encoding and decoding changed the program")
			}
		})
	}
}

func TestRealTextDumpsEncodeToTheirBinary(t *testing.T) {
	binaries := modelFiles(t, "_program", ".bin")
	for name, text := range modelFiles(t, ".pbtxt") {
		t.Run(name, func(t *testing.T) {
			base := strings.TrimSuffix(name, ".pbtxt")
			want, ok := binaries[base]
			if !ok {
				want, ok = binaries[base+".bin"]
			}
			if !ok {
				t.Fatal("the dump has no binary beside it")
			}
			program := new(framework.ProgramDesc)
			if err := prototext.Unmarshal(text, program); err != nil {
				t.Fatal(err)
			}
			// These dumps are of generation B, which called field 2 "version".
			program.LegacyVersion, program.Version = program.Version, nil
			if got := encode(t, program); !bytes.Equal(got, want) {
				t.Errorf("encoded to %d bytes that differ from the %d of the binary", len(got), len(want))
			}
		})
	}
}

func encode(t *testing.T, message proto.Message) []byte {
	t.Helper()
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func decodeProgram(t *testing.T, content []byte) *framework.ProgramDesc {
	t.Helper()
	program := new(framework.ProgramDesc)
	if err := proto.Unmarshal(content, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// requireNoUnknownFields reports every message of the tree that holds bytes
// which none of its fields accounts for.
func requireNoUnknownFields(t *testing.T, message proto.Message) {
	t.Helper()
	err := protorange.Range(message.ProtoReflect(), func(path protopath.Values) error {
		inner, ok := path.Index(-1).Value.Interface().(protoreflect.Message)
		if ok && len(inner.GetUnknown()) > 0 {
			t.Errorf("%v: unknown bytes %x", path.Path, inner.GetUnknown())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
