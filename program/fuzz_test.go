package program_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/edl-go/edl/program"
)

// FuzzDecode looks for bytes that make Decode panic, or that change when they are decoded and encoded again.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, regression(f)))
	for _, test := range hostile {
		if len(test.data) < 1000 {
			f.Add(test.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := program.Decode(data, program.Limits{Bytes: 1 << 20, Elements: 1 << 16})
		if err != nil {
			return
		}
		once := encode(t, p)
		again, err := program.Decode(once, program.Limits{})
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if twice := encode(t, again); !bytes.Equal(once, twice) {
			t.Fatalf("encoding twice gives\n%x and\n%x", once, twice)
		}
		if !bytes.Equal(once, encode(t, p.Clone())) {
			t.Fatal("a clone is another program")
		}
		// None of these may panic, whatever the program means.
		_ = program.Verify(p, program.Spec{})
		p.CloneForTest()
		for _, b := range p.Blocks {
			b.Uses()
		}
		if err := p.Text(io.Discard, program.TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := p.JSON(io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := p.ProtoText(); err != nil {
			t.Fatal(err)
		}
	})
}
