package recordio

import (
	"bytes"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestWriterRefuses(t *testing.T) {
	for _, o := range []Options{{ChunkBytes: -1}, {ChunkBytes: 33 << 20}, {ChunkRecords: -1}, {Compressor: 3}, {Layout: Fluid}, {Layout: -1}} {
		if _, err := NewWriter(&bytes.Buffer{}, o); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	w, err := NewWriter(&bytes.Buffer{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(make([]byte, 32<<20+1)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("a huge record: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a write after Close: %v", err)
	}
}
