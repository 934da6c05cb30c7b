package recordio

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
)

// The same in the layout of this package: a chunk, and a footer of one entry.
const goldenIndexed = "45444c52 c98a88be 00000000 0b000000 02000000 0b000000 01000000 61 02000000 6263" +
	"45444c46 02000000 0000000000000000 c98a88be 00000000 0b000000 02000000 0b000000 0200000000000000 01000000 8a73b41b 45444c494e444558"

// A file of no records.
const goldenEmpty = "45444c46 02000000 0000000000000000 00000000 bbf4616e 45444c494e444558"

// The file that the Go library of PaddlePaddle writes for the records "a" and "bc" without compression.
const golden = "04030201 b1b17049 00000000 0b000000 02000000 01000000 61 02000000 6263"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, options Options, records ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// readAll reads every record of a file in memory.
func readAll(b []byte, limits Limits) ([]string, error) {
	index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), limits)
	if err != nil {
		return nil, err
	}
	return readRange(b, index, 0, index.NumRecords())
}

func readRange(b []byte, index *Index, first, count int64) (records []string, err error) {
	r, err := NewRangeReader(bytes.NewReader(b), index, first, count)
	if err != nil {
		return nil, err
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, string(record))
	}
}

func TestGolden(t *testing.T) {
	for layout, file := range map[Layout]string{Indexed: goldenIndexed, Plain: golden} {
		b := unhex(t, file)
		if got := write(t, Options{Layout: layout}, "a", "bc"); !bytes.Equal(got, b) {
			t.Errorf("%v: wrote %x", layout, got)
		}
		if got, err := readAll(b, Limits{}); err != nil || !slices.Equal(got, []string{"a", "bc"}) {
			t.Errorf("%v: read %q, error %v", layout, got, err)
		}
		snappy := write(t, Options{Compressor: Snappy, Layout: layout}, "a", "bc")[layout.headerBytes():]
		if want := unhex(t, "ff060000 734e61507059"); !bytes.Equal(snappy[:10], want) {
			t.Errorf("%v: snappy payload %x does not start with the stream identifier", layout, snappy)
		}
	}
}

func TestFilesWithoutRecords(t *testing.T) {
	for layout, want := range map[Layout][]byte{Indexed: unhex(t, goldenEmpty), Plain: nil} {
		if b := write(t, Options{Compressor: Gzip, Layout: layout}); !bytes.Equal(b, want) {
			t.Errorf("%v: wrote %x", layout, b)
		}
		if got, err := readAll(want, Limits{}); err != nil || len(got) != 0 {
			t.Errorf("%v: read %q, error %v", layout, got, err)
		}
	}
}

func TestLayoutsAreToldApart(t *testing.T) {
	plain := write(t, Options{Layout: Plain}, "a", "bc")
	for want, b := range map[Layout][]byte{Indexed: unhex(t, goldenIndexed), Plain: plain, Fluid: cplusplus(plain)} {
		index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
		if err != nil || index.Layout != want || !IsRecordFile(b) {
			t.Errorf("%v is taken for %v, error %v", want, index.Layout, err)
		}
		if footer := map[Layout]int64{Indexed: footerHeadBytes + entryBytes + trailerBytes}[want]; index.FooterBytes() != footer {
			t.Errorf("%v: a footer of %d bytes, want %d", want, index.FooterBytes(), footer)
		}
	}
	if IsRecordFile([]byte("EDL")) || IsRecordFile([]byte("EDLX")) {
		t.Error("other files are taken for record files")
	}
	mixed := append(bytes.Clone(plain), cplusplus(plain)...)
	if _, err := readAll(mixed, Limits{}); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "layout fluid") {
		t.Errorf("two layouts in a file: %v", err)
	}
}

// cplusplus rewrites the headers of a file in the order of Fluid's C++ writer.
func cplusplus(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at < len(b); {
		crcCompressorStored, records := b[at+4:at+16], b[at+16:at+20]
		stored := binary.LittleEndian.Uint32(crcCompressorStored[8:])
		copy(b[at+4:], append(bytes.Clone(records), crcCompressorStored...))
		at += plainHeaderBytes + int(stored)
	}
	return b
}

func TestCPlusPlusHeaders(t *testing.T) {
	if got, want := cplusplus(unhex(t, golden)),
		unhex(t, "04030201 02000000 b1b17049 00000000 0b000000 01000000 61 02000000 6263"); !bytes.Equal(got, want) {
		t.Fatalf("the test writes %x", got)
	}
	for c := None; c <= Gzip; c++ {
		b := cplusplus(write(t, Options{Compressor: c, ChunkRecords: 1, Layout: Plain}, "", "one", "two"))
		if got, err := readAll(b, Limits{}); err != nil || !slices.Equal(got, []string{"", "one", "two"}) {
			t.Errorf("%v: read %q, error %v", c, got, err)
		}
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := rapid.SliceOfN(rapid.StringN(0, 40, 200), 0, 50).Draw(rt, "records")
		options := Options{
			ChunkBytes:   rapid.IntRange(0, 300).Draw(rt, "chunk bytes"),
			ChunkRecords: rapid.IntRange(0, 7).Draw(rt, "chunk records"),
			Compressor:   Compressor(rapid.Uint32Range(0, 2).Draw(rt, "compressor")),
			Layout:       Layout(rapid.IntRange(0, 1).Draw(rt, "layout")),
		}
		b := write(t, options, records...)
		index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
		if err != nil || index.NumRecords() != int64(len(records)) {
			rt.Fatalf("%d records indexed of %d: %v", index.NumRecords(), len(records), err)
		}
		for i, c := range index.Chunks {
			if options.ChunkRecords > 0 && c.Records > int64(options.ChunkRecords) {
				rt.Errorf("chunk %d has %d records", i, c.Records)
			}
		}
		first := rapid.IntRange(0, len(records)).Draw(rt, "first")
		count := rapid.IntRange(0, len(records)-first).Draw(rt, "count")
		got, err := readRange(b, index, int64(first), int64(count))
		if err != nil || !slices.Equal(got, records[first:first+count]) {
			rt.Fatalf("read %q from record %d, error %v", got, first, err)
		}
	})
}

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

// countingReaderAt sums the bytes that are asked for.
type countingReaderAt struct {
	io.ReaderAt
	bytes int
}

func (c *countingReaderAt) ReadAt(b []byte, off int64) (int, error) {
	c.bytes += len(b)
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
	const n = 3000
	var file bytes.Buffer
	w, err := NewWriter(&file, Options{ChunkRecords: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := readAll(file.Bytes(), Limits{})
	if err != nil || len(records) != n || records[n-1] != string(binary.LittleEndian.AppendUint32(nil, n-1)) {
		t.Errorf("%d records, error %v", len(records), err)
	}
	if _, err := readAll(file.Bytes(), Limits{Chunks: n - 1}); !errors.Is(err, fault.TooLarge) {
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

// chunkOf makes one chunk with a true checksum around any payload.
func chunkOf(c Compressor, records uint32, payload string) []byte {
	h := header{checksum: crc32.ChecksumIEEE([]byte(payload)), compressor: c, stored: uint32(len(payload)), records: records}
	return append(h.appendPlain(nil), payload...)
}

// indexedOf makes a file with true checksums of one chunk around any payload, whose header claims raw bytes.
func indexedOf(c Compressor, records, raw uint32, payload string) []byte {
	h := header{compressor: c, stored: uint32(len(payload)), records: records, raw: raw}
	chunk := append(h.appendIndexed(appendWords(nil, chunkMagic)), payload...)
	h.checksum = indexedChecksum(chunk)
	h.appendIndexed(chunk[:magicBytes])
	return appendFooter(chunk, []Chunk{{Records: int64(records), StoredBytes: int64(len(payload)), RawBytes: int64(raw), Compressor: c,
		checksum: h.checksum}})
}

func compressed(t testing.TB, c Compressor, raw string) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.compress(&b, []byte(raw)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
