package dataset

import (
	"bytes"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestRecordRoundTrip(t *testing.T) {
	b := sample(t, 7)
	tensors, err := DecodeRecord(b)
	if err != nil || len(tensors) != 2 || tensors[0].Float32s()[1] != 7.5 || tensors[1].Int64s()[0] != 7 {
		t.Fatalf("decoded %v, error %v", tensors, err)
	}
	if !bytes.Equal(AppendRecord(nil, tensors...), b) {
		t.Fatal("the record changes when it is written again")
	}
}

func TestRecordRefusals(t *testing.T) {
	b := sample(t, 7)
	for n := range b {
		if _, err := DecodeRecord(b[:n]); !errors.Is(err, fault.Corrupt) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := DecodeRecord(append(bytes.Clone(b), 0)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := DecodeRecord([]byte{0xff, 0xff, 0xff, 0xff}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("four billion tensors: %v", err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(sample(f, 7))
	f.Add(AppendRecord(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, tensors...))
		if err != nil || len(again) != len(tensors) {
			t.Fatalf("%v became %v: %v", tensors, again, err)
		}
	})
}
