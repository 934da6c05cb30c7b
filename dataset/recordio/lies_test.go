package recordio

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

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
