package recordio

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestCutAnywhere(t *testing.T) {
	for c := None; c <= Gzip; c++ {
		one := write(t, Options{Compressor: c}, "first", "second")
		b := append(bytes.Clone(one), one...)
		for n := range b {
			got, err := readAll(b[:n], Limits{})
			if n == 0 || n == len(one) {
				if err != nil {
					t.Errorf("%v: %d whole chunks: %v", c, n/len(one), err)
				}
			} else if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "file: byte") {
				t.Errorf("%v: the first %d of %d bytes gave %q, error %v", c, n, len(b), got, err)
			}
		}
	}
}

func TestFlipAnyBit(t *testing.T) {
	for c := None; c <= Gzip; c++ {
		for name, b := range map[string][]byte{
			"Go":  write(t, Options{Compressor: c, ChunkRecords: 2}, "a", "bc", "def"),
			"C++": cplusplus(write(t, Options{Compressor: c, ChunkRecords: 2}, "a", "bc", "def")),
		} {
			for bit := range 8 * len(b) {
				flipped := bytes.Clone(b)
				flipped[bit/8] ^= 1 << (bit % 8)
				_, err := readAll(flipped, Limits{})
				if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.TooLarge) {
					t.Errorf("%v, %s: bit %d of byte %d flipped: %v", c, name, bit%8, bit/8, err)
				}
			}
		}
	}
}

func TestLies(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20) // as records: 262144 empty ones
	for name, c := range map[string]struct {
		file   []byte
		limits Limits
		kind   fault.Kind
	}{
		"record of 10 bytes with 3 present": {chunkOf(None, 1, "\x0a\x00\x00\x00abc"), Limits{}, fault.Corrupt},
		"record of 4 GiB":                   {chunkOf(None, 1, "\xff\xff\xff\xffabc"), Limits{}, fault.Corrupt},
		"half a length":                     {chunkOf(None, 2, "\x03\x00\x00\x00abc\x01"), Limits{}, fault.Corrupt},
		"one record too few":                {chunkOf(None, 1, "\x01\x00\x00\x00a\x01\x00\x00\x00b"), Limits{}, fault.Corrupt},
		"one record too many":               {chunkOf(None, 3, "\x01\x00\x00\x00a\x03\x00\x00\x00bcd"), Limits{}, fault.Corrupt},
		"no records":                        {chunkOf(None, 0, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"more records than bytes":           {chunkOf(None, 1<<31, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"more records than the budget":      {chunkOf(Gzip, 1<<31, compressed(t, Gzip, "\x00\x00\x00\x00")), Limits{}, fault.TooLarge},
		"unknown compressor":                {chunkOf(7, 1, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"not snappy":                        {chunkOf(Snappy, 1, "\x01\x00\x00\x00a"), Limits{}, fault.Corrupt},
		"not gzip":                          {chunkOf(Gzip, 1, "\x01\x00\x00\x00a"), Limits{}, fault.Corrupt},
		"garbage behind gzip":               {chunkOf(Gzip, 1, compressed(t, Gzip, "\x01\x00\x00\x00a")+"garbage"), Limits{}, fault.Corrupt},
		"gzip bomb":                         {chunkOf(Gzip, 1<<18, compressed(t, Gzip, zeros)), Limits{RawBytes: 1<<20 - 1}, fault.TooLarge},
		"snappy bomb":                       {chunkOf(Snappy, 1<<18, compressed(t, Snappy, zeros)), Limits{RawBytes: 1<<20 - 1}, fault.TooLarge},
		"ratio":                             {chunkOf(Gzip, 1<<10, compressed(t, Gzip, zeros)), Limits{Ratio: 100}, fault.TooLarge},
		"stored size":                       {unhex(t, golden), Limits{StoredBytes: 10}, fault.TooLarge},
		"raw size":                          {unhex(t, golden), Limits{RawBytes: 10}, fault.TooLarge},
		"record size":                       {unhex(t, golden), Limits{RecordBytes: 1}, fault.TooLarge},
	} {
		if got, err := readAll(c.file, c.limits); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "file: byte 0") {
			t.Errorf("%s: read %d records, error %v, want %v", name, len(got), err, c.kind)
		}
	}
	if got, err := readAll(chunkOf(Gzip, 1<<18, compressed(t, Gzip, zeros)), Limits{RawBytes: 1 << 20}); err != nil || len(got) != 1<<18 {
		t.Errorf("a budget of the exact size: %d records, error %v", len(got), err)
	}
}

// A 25-byte file that promises a gigabyte must not be believed.
func TestPromiseOfAGigabyte(t *testing.T) {
	b := unhex(t, "04030201 00000000 00000000 00000040 01000000 0000000000")
	if _, err := readAll(b, Limits{StoredBytes: 1 << 31, RawBytes: 1 << 31}); !errors.Is(err, fault.Corrupt) {
		t.Fatal(err)
	}
}

func TestErrorIsSticky(t *testing.T) {
	good := write(t, Options{}, "a")
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

func TestWriterRefuses(t *testing.T) {
	for _, o := range []Options{{ChunkBytes: -1}, {ChunkBytes: 33 << 20}, {ChunkRecords: -1}, {Compressor: 3}} {
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

// FuzzRead holds what is accepted to survive being written again.
func FuzzRead(f *testing.F) {
	f.Add(unhex(f, golden))
	for c := None; c <= Gzip; c++ {
		b := write(f, Options{Compressor: c, ChunkRecords: 2}, "a", "", "bc")
		f.Add(b)
		f.Add(cplusplus(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := readAll(b, Limits{RawBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.TooLarge) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		if again, err := readAll(write(t, Options{}, records...), Limits{}); err != nil || len(again) != len(records) {
			t.Fatalf("%d records became %d: %v", len(records), len(again), err)
		}
	})
}
