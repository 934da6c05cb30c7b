package recordio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestLocate(t *testing.T) {
	b := write(t, Options{ChunkRecords: 2}, "0", "1", "2", "3", "4")
	index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for record, want := range [][2]int64{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}} {
		chunk, within, err := index.Locate(int64(record))
		if err != nil || int64(chunk) != want[0] || within != want[1] {
			t.Errorf("record %d is at %d in chunk %d, error %v", record, within, chunk, err)
		}
	}
	for _, record := range []int64{-1, 5} {
		if _, _, err := index.Locate(record); !errors.Is(err, fault.NotFound) {
			t.Errorf("record %d: %v", record, err)
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {0, 6}, {6, 0}, {2, -1}} {
		if _, err := NewRangeReader(bytes.NewReader(b), index, r[0], r[1]); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("range %v: %v", r, err)
		}
	}
}

// A Reader finds every record, in whatever order, and reads chunks only for records that it has not loaded.
func TestReaderReadsOnlyChunksOfItsRecords(t *testing.T) {
	var records []string
	for i := range 20 {
		records = append(records, strings.Repeat(string(rune('a'+i)), i*10))
	}
	for _, c := range []Compressor{None, Snappy, Gzip} {
		for _, layout := range []Layout{Indexed, Plain} {
			b := write(t, Options{ChunkRecords: 4, Compressor: c, Layout: layout}, records...)
			index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			source := &countingReaderAt{ReaderAt: bytes.NewReader(b)}
			r := NewReader(source, index)
			for _, step := range []struct{ record, reads int }{{5, 1}, {7, 1}, {4, 1}, {4, 1}, {6, 1}, {18, 2}, {19, 2}, {16, 2}, {0, 3}, {3, 3}, {5, 4}} {
				got, err := r.Record(int64(step.record))
				if err != nil || string(got) != records[step.record] || source.reads != step.reads {
					t.Errorf("%v, %v: record %d is %q after %d reads, want %q after %d, error %v", c, layout, step.record, got, source.reads,
						records[step.record], step.reads, err)
				}
			}
			for _, record := range []int64{-1, 20} {
				if _, err := r.Record(record); !errors.Is(err, fault.NotFound) {
					t.Errorf("record %d: %v", record, err)
				}
			}
			if got, err := r.Record(9); err != nil || string(got) != records[9] {
				t.Errorf("after an error record 9 is %q, %v", got, err)
			}
		}
	}
}

// countingReaderAt sums the bytes that are asked for.
type countingReaderAt struct {
	io.ReaderAt
	bytes, reads int
}

func (c *countingReaderAt) ReadAt(b []byte, off int64) (int, error) {
	c.bytes += len(b)
	c.reads++
	return c.ReaderAt.ReadAt(b, off)
}

func TestIndexReadsHeadersOnly(t *testing.T) {
	for layout, want := range map[Layout]int{
		Indexed: magicBytes + trailerBytes + footerHeadBytes + 2*entryBytes, Plain: magicBytes + 2*plainHeaderBytes,
	} {
		b := write(t, Options{ChunkRecords: 1, Layout: layout}, strings.Repeat("x", 5000), strings.Repeat("y", 5000))
		r := &countingReaderAt{ReaderAt: bytes.NewReader(b)}
		if _, err := LoadIndex("file", r, int64(len(b)), Limits{}); err != nil || r.bytes != want {
			t.Errorf("%v: read %d bytes, want %d, error %v", layout, r.bytes, want, err)
		}
	}
}

// Many chunks take several blocks of entries.
func TestLongFooter(t *testing.T) {
	records := make([]string, 3000)
	for i := range records {
		records[i] = string(binary.LittleEndian.AppendUint32(nil, uint32(i)))
	}
	b := write(t, Options{ChunkRecords: 1}, records...)
	if got, err := readAll(b, Limits{}); err != nil || !slices.Equal(got, records) {
		t.Errorf("%d records, error %v", len(got), err)
	}
	if _, err := readAll(b, Limits{Chunks: len(records) - 1}); !errors.Is(err, fault.TooLarge) {
		t.Errorf("more chunks than the limit: %v", err)
	}
}

func TestFingerprintTellsFilesApart(t *testing.T) {
	seen := map[uint64]string{}
	for name, b := range map[string][]byte{
		"none": write(t, Options{}), "one": write(t, Options{}, "a"), "another": write(t, Options{}, "b"), "two": write(t, Options{}, "a", "b"),
		"two in two chunks": write(t, Options{ChunkRecords: 1}, "a", "b"), "plain": write(t, Options{Layout: Plain}, "a"),
	} {
		index, err := LoadIndex(name, bytes.NewReader(b), int64(len(b)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[index.Fingerprint()]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[index.Fingerprint()] = name
	}
}
