package recordio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
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

// A file with a footer is as it was written or refused, whatever happens to it: also what leaves an old layout sound.
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

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Reading anything costs memory in proportion to the file and to the budget, and not to what the file claims.
func TestMemoryBudget(t *testing.T) {
	zeros := strings.Repeat("\x00", 32<<20)
	budget := Limits{RawBytes: 1 << 20, StoredBytes: 1 << 20}
	gzipped := compressed(t, Gzip, zeros)
	files := map[string][]byte{
		"a record of 4 GiB, plain":     chunkOf(None, 1, "\xff\xff\xff\xffabc"),
		"a record of 4 GiB, indexed":   indexedOf(None, 1, 7, "\xff\xff\xff\xffabc"),
		"gzip bomb, plain":             chunkOf(Gzip, 1<<18, gzipped),
		"gzip bomb, indexed":           indexedOf(Gzip, 1<<18, 1<<20, gzipped),
		"snappy bomb, indexed":         indexedOf(Snappy, 1<<18, 1<<20, compressed(t, Snappy, zeros[:4<<20])),
		"4 GiB announced, indexed":     indexedOf(Gzip, 1, 1<<32-1, gzipped),
		"1 GiB stored, plain":          unhex(t, "04030201 00000000 00000000 00000040 01000000 0000000000"),
		"4 Gi chunks":                  lyingFooter(1<<32 - 1),
		"as many chunks as fit, empty": lyingFooter(40000),
	}
	for name, b := range files {
		var err error
		if n := allocated(func() { _, err = readAll(b, budget) }); n > 6<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
		refused(t, err, name)
	}
}

// lyingFooter is a file of 3 MB whose footer claims some chunks, all of them zero.
func lyingFooter(chunks uint32) []byte {
	b := make([]byte, 3<<20)
	copy(b, "EDLR")
	at := len(b) - trailerBytes
	binary.LittleEndian.PutUint32(b[at+8:], chunks)
	copy(b[len(b)-len(endMagic):], endMagic)
	if footer := int64(at) - int64(chunks)*entryBytes - footerHeadBytes; footer > 0 {
		appendWords(b[:footer], footerMagic, footerVersion)
	}
	return b
}

func TestLies(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20) // as records: 262144 empty ones
	for name, c := range map[string]struct {
		file   []byte
		limits Limits
		kind   fault.Kind
	}{
		"indexed: record of 10 bytes with 3 present": {indexedOf(None, 1, 7, "\x0a\x00\x00\x00abc"), Limits{}, fault.Corrupt},
		"indexed: one record too few":                {indexedOf(None, 1, 10, "\x01\x00\x00\x00a\x01\x00\x00\x00b"), Limits{}, fault.Corrupt},
		"indexed: one record too many":               {indexedOf(None, 3, 12, "\x01\x00\x00\x00a\x03\x00\x00\x00bcd"), Limits{}, fault.Corrupt},
		"indexed: no records":                        {indexedOf(None, 0, 4, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"indexed: other size as it is":               {indexedOf(None, 1, 5, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"indexed: more than it says":                 {indexedOf(Gzip, 1, 4, compressed(t, Gzip, "\x01\x00\x00\x00a")), Limits{}, fault.TooLarge},
		"indexed: less than it says":                 {indexedOf(Gzip, 1, 6, compressed(t, Gzip, "\x01\x00\x00\x00a")), Limits{}, fault.Corrupt},
		"indexed: unknown compressor":                {indexedOf(7, 1, 4, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"indexed: ratio":                             {indexedOf(Gzip, 1<<18, 1<<20, compressed(t, Gzip, zeros)), Limits{Ratio: 100}, fault.TooLarge},
		"record of 10 bytes with 3 present":          {chunkOf(None, 1, "\x0a\x00\x00\x00abc"), Limits{}, fault.Corrupt},
		"record of 4 GiB":                            {chunkOf(None, 1, "\xff\xff\xff\xffabc"), Limits{}, fault.Corrupt},
		"half a length":                              {chunkOf(None, 2, "\x03\x00\x00\x00abc\x01"), Limits{}, fault.Corrupt},
		"one record too few":                         {chunkOf(None, 1, "\x01\x00\x00\x00a\x01\x00\x00\x00b"), Limits{}, fault.Corrupt},
		"one record too many":                        {chunkOf(None, 3, "\x01\x00\x00\x00a\x03\x00\x00\x00bcd"), Limits{}, fault.Corrupt},
		"no records":                                 {chunkOf(None, 0, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"more records than bytes":                    {chunkOf(None, 1<<31, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"more records than the budget":               {chunkOf(Gzip, 1<<31, compressed(t, Gzip, "\x00\x00\x00\x00")), Limits{}, fault.TooLarge},
		"unknown compressor":                         {chunkOf(7, 1, "\x00\x00\x00\x00"), Limits{}, fault.Corrupt},
		"not snappy":                                 {chunkOf(Snappy, 1, "\x01\x00\x00\x00a"), Limits{}, fault.Corrupt},
		"not gzip":                                   {chunkOf(Gzip, 1, "\x01\x00\x00\x00a"), Limits{}, fault.Corrupt},
		"garbage behind gzip":                        {chunkOf(Gzip, 1, compressed(t, Gzip, "\x01\x00\x00\x00a")+"garbage"), Limits{}, fault.Corrupt},
		"gzip bomb":                                  {chunkOf(Gzip, 1<<18, compressed(t, Gzip, zeros)), Limits{RawBytes: 1<<20 - 1}, fault.TooLarge},
		"snappy bomb":                                {chunkOf(Snappy, 1<<18, compressed(t, Snappy, zeros)), Limits{RawBytes: 1<<20 - 1}, fault.TooLarge},
		"ratio":                                      {chunkOf(Gzip, 1<<10, compressed(t, Gzip, zeros)), Limits{Ratio: 100}, fault.TooLarge},
		"stored size":                                {unhex(t, golden), Limits{StoredBytes: 10}, fault.TooLarge},
		"raw size":                                   {unhex(t, golden), Limits{RawBytes: 10}, fault.TooLarge},
		"record size":                                {unhex(t, golden), Limits{RecordBytes: 1}, fault.TooLarge},
	} {
		if got, err := readAll(c.file, c.limits); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "file: byte ") {
			t.Errorf("%s: read %d records, error %v, want %v", name, len(got), err, c.kind)
		}
	}
	if got, err := readAll(chunkOf(Gzip, 1<<18, compressed(t, Gzip, zeros)), Limits{RawBytes: 1 << 20}); err != nil || len(got) != 1<<18 {
		t.Errorf("a budget of the exact size: %d records, error %v", len(got), err)
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
