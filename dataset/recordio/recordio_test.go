package recordio

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"pgregory.net/rapid"
)

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
