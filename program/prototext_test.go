package program_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

func TestProtoTextReadsBack(t *testing.T) {
	p := nested(t)
	p.Startup = nil
	data, err := p.ProtoText()
	if err != nil {
		t.Fatal(err)
	}
	again, err := program.DecodeProtoText(data, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, again), encode(t, p)) {
		t.Error("the text reads as another program")
	}
	if bytes.Contains(data, []byte(":  ")) {
		t.Error("the number of spaces is that of the build")
	}
	_, err = program.DecodeProtoText([]byte("blocks { nonsense: 1 }"), program.Limits{})
	requireFault(t, err, fault.Corrupt, "nonsense")
	_, err = program.DecodeProtoText(data, program.Limits{Bytes: 5})
	requireFault(t, err, fault.TooLarge)
	_, err = program.DecodeProtoText([]byte("blocks { idx: 0 parent_idx: -1 ops { } }"), program.Limits{})
	requireFault(t, err, fault.InvalidProgram, "without a type")
}

func TestRealTextDumpsReadAsTheirBinary(t *testing.T) {
	for name, binary := range models(t) {
		base := filepath.Join(os.Getenv("EDL_TESTDATA"), "models", strings.TrimSuffix(name, ".bin"))
		dump, err := os.ReadFile(base + ".pbtxt")
		if err != nil {
			continue
		}
		p, err := program.DecodeProtoText(dump, program.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(encode(t, p), encode(t, decode(t, binary))) {
			t.Errorf("%s: text and binary are different programs", name)
		}
	}
}
