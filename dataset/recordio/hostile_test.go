package recordio

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// layouts are the same records in all layouts.
func layouts(t testing.TB, options Options, records ...string) map[Layout][]byte {
	indexed := write(t, options, records...)
	options.Layout = Plain
	plain := write(t, options, records...)
	return map[Layout][]byte{Indexed: indexed, Plain: plain, Fluid: cplusplus(plain)}
}

// refused fails the test unless err is that of a damaged file, with the place of the damage.
func refused(t *testing.T, err error, format string, args ...any) {
	t.Helper()
	if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "file: byte") {
		t.Errorf(format+": %v", append(args, err)...)
	}
}

// A file of an old layout that is cut between two chunks is a sound, shorter file. One with a footer never is, unless nothing is left of it.
func TestCutAnywhere(t *testing.T) {
	for c := None; c <= Gzip; c++ {
		for layout, b := range layouts(t, Options{Compressor: c, ChunkRecords: 1}, "first", "second", "") {
			ends := map[int]bool{0: true}
			if layout != Indexed {
				index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
				if err != nil {
					t.Fatal(err)
				}
				for _, chunk := range index.Chunks {
					ends[int(chunk.Offset)] = true
				}
			}
			for n := range b {
				_, err := readAll(b[:n], Limits{})
				if !ends[n] {
					refused(t, err, "%v, %v: the first %d of %d bytes", layout, c, n, len(b))
				} else if err != nil {
					t.Errorf("%v, %v: %d bytes of whole chunks: %v", layout, c, n, err)
				}
				if layout == Indexed && n >= magicBytes && !errors.Is(err, ErrIncomplete) {
					t.Errorf("%v: the first %d of %d bytes: %v", c, n, len(b), err)
				}
			}
		}
	}
}

func TestFlipAnyBit(t *testing.T) {
	for c := None; c <= Gzip; c++ {
		for layout, b := range layouts(t, Options{Compressor: c, ChunkRecords: 2}, "a", "bc", "def") {
			for bit := range 8 * len(b) {
				flipped := bytes.Clone(b)
				flipped[bit/8] ^= 1 << (bit % 8)
				_, err := readAll(flipped, Limits{})
				refused(t, err, "%v, %v: bit %d of byte %d flipped", layout, c, bit%8, bit/8)
			}
		}
	}
}

// A damaged file with a footer is refused, even if the damage leaves a file of an old layout valid.
func TestIndexedIsAllOrNothing(t *testing.T) {
	one, two := write(t, Options{ChunkRecords: 1}, "one", "two"), write(t, Options{ChunkRecords: 1}, "uno", "due")
	const chunk = indexedHeaderBytes + lengthBytes + 3
	for name, b := range map[string][]byte{
		"two files in a row":      slices.Concat(one, two),
		"a chunk is missing":      one[chunk:],
		"a chunk is there twice":  slices.Concat(one[:chunk], one),
		"chunks changed places":   slices.Concat(one[chunk:2*chunk], one[:chunk], one[2*chunk:]),
		"a chunk of another file": slices.Concat(one[:chunk], two[chunk:2*chunk], one[2*chunk:]),
		"footer of another file":  slices.Concat(one[:2*chunk], two[2*chunk:]),
		"bytes behind the footer": append(bytes.Clone(one), 0),
		"bytes in front":          append([]byte{0}, one...),
	} {
		_, err := readAll(b, Limits{})
		refused(t, err, name)
	}
}

// Damage of the footer is an error although all chunks are there.
func TestDamagedFooterIsNoReasonToScan(t *testing.T) {
	b := write(t, Options{ChunkRecords: 1}, "one", "two")
	footer := len(b) - trailerBytes - 2*entryBytes - footerHeadBytes
	for at := footer; at < len(b); at++ {
		damaged := bytes.Clone(b)
		damaged[at] ^= 0x10
		_, err := LoadIndex("file", bytes.NewReader(damaged), int64(len(b)), Limits{})
		refused(t, err, "byte %d of the footer", at-footer)
	}
}

func TestErrorIsSticky(t *testing.T) {
	good := write(t, Options{Layout: Plain}, "a")
	b := append(bytes.Clone(good), chunkOf(None, 1, "\x0a\x00\x00\x00abc")...)
	index, err := LoadIndex("train-00000", bytes.NewReader(b), int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRangeReader(bytes.NewReader(b), index, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if record, err := r.Next(); err != nil || string(record) != "a" {
		t.Fatalf("first record %q, error %v", record, err)
	}
	_, first := r.Next()
	_, second := r.Next()
	if !errors.Is(first, fault.Corrupt) || first != second || !strings.Contains(first.Error(), "train-00000: byte 25") {
		t.Fatalf("first %v, then %v", first, second)
	}
}

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
