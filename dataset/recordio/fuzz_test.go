package recordio

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
)

// FuzzRead holds what is accepted to survive being written again, and what is refused to be refused for what it is.
func FuzzRead(f *testing.F) {
	for c := None; c <= Gzip; c++ {
		for _, b := range layouts(f, Options{Compressor: c, ChunkRecords: 2}, "a", "", "bc") {
			f.Add(b)
		}
	}
	f.Add(lyingFooter(3)[3<<20-200:])
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{RawBytes: 1 << 20, StoredBytes: 1 << 20}
		records, err := readAll(b, limits)
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Corrupt && kind != fault.TooLarge {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		for _, layout := range []Layout{Indexed, Plain} {
			if again, err := readAll(write(t, Options{Layout: layout}, records...), Limits{}); err != nil || !slices.Equal(again, records) {
				t.Fatalf("%d records became %d: %v", len(records), len(again), err)
			}
		}
	})
}

// FuzzDamage changes a sound file with a footer in one place. It must be refused, or read as it was.
func FuzzDamage(f *testing.F) {
	f.Add(uint16(0), uint16(1), []byte{0}, uint8(0))
	f.Add(uint16(20), uint16(4), []byte("EDLINDEX"), uint8(1))
	f.Add(uint16(60), uint16(0), []byte{1, 2, 3}, uint8(2))
	f.Add(uint16(90), uint16(28), []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, at, length uint16, with []byte, compressor uint8) {
		records := []string{"a", "", "bc", "def", "a longer one than those"}
		b := write(t, Options{Compressor: Compressor(compressor % 3), ChunkRecords: 2}, records...)
		from := int(at) % (len(b) + 1)
		to := from + int(length)%(len(b)-from+1)
		damaged := slices.Concat(b[:from], with, b[to:])
		got, err := readAll(damaged, Limits{})
		if len(damaged) == 0 || errors.Is(err, fault.Corrupt) || errors.Is(err, fault.TooLarge) {
			return
		}
		if index, lost := LoadIndex("file", bytes.NewReader(damaged), int64(len(damaged)), Limits{}); lost == nil && index.Layout != Indexed {
			return // a whole file of an old layout was put in its place
		}
		if err != nil || !slices.Equal(got, records) {
			t.Fatalf("bytes [%d, %d) replaced by %x: read %q, error %v", from, to, with, got, err)
		}
	})
}
