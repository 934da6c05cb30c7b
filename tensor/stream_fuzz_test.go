package tensor

import (
	"bytes"
	"testing"
)

// FuzzStream holds both decoders to the same verdict, and what they accept to a stable written form.
func FuzzStream(f *testing.F) {
	for _, golden := range []string{goldenPlain, goldenLoD, goldenLoDLast} {
		f.Add(unhex(f, golden))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{Bytes: 1 << 20}
		decoded, rest, err := DecodeStream(b, limits)
		src := bytes.NewReader(b)
		read, readErr := Read(src, limits)
		if (err == nil) != (readErr == nil) {
			t.Fatalf("DecodeStream: %v, Read: %v", err, readErr)
		}
		if err != nil {
			return
		}
		if src.Len() != len(rest) || !equal(decoded, read) {
			t.Fatalf("DecodeStream left %d bytes of %v, Read %d of %v", len(rest), decoded, src.Len(), read)
		}
		again, _, err := DecodeStream(AppendStream(nil, decoded), limits)
		if err != nil || !equal(again, decoded) {
			t.Fatalf("%v is not read back: %v", decoded, err)
		}
	})
}

// FuzzSelectedRows holds what is accepted to a stable written form.
func FuzzSelectedRows(f *testing.F) {
	value, _ := FromSlice([]float32{1, 2}, 2, 1)
	f.Add(AppendSelectedRows(nil, &SelectedRows{Rows: []int64{5, 7}, Height: 10, Value: value}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := DecodeSelectedRows(b, Limits{Bytes: 1 << 20})
		if err != nil {
			return
		}
		if _, rest, err := DecodeSelectedRows(AppendSelectedRows(nil, s), Limits{}); err != nil || len(rest) != 0 {
			t.Fatalf("not read back: rest %d, %v", len(rest), err)
		}
	})
}
