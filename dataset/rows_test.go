package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"pgregory.net/rapid"
)

// A stream is what Select and Batches are compared on: the records of a dataset that are not in skip, in order.
type stream struct {
	data *Dataset
	list []Range
	read []int64 // numbers that were read, in order
}

func drawStream(t *rapid.T, d *Dataset) *stream {
	n := d.NumRecords()
	var skip []Range
	for range rapid.IntRange(0, 3).Draw(t, "gaps") {
		from := rapid.Int64Range(0, n).Draw(t, "gap from")
		skip = append(skip, Range{From: from, To: rapid.Int64Range(from, n).Draw(t, "gap to")})
	}
	return &stream{data: d, list: ranges.Subtract([]Range{{From: 0, To: n}}, ranges.Of(skip...))}
}

// from returns the stream from a position on.
func (s *stream) from(position int64) []Range {
	q := rangeQueue{}
	q.push(s.list)
	q.take(nil, min(position, q.count))
	return q.take(nil, q.count)
}

// whole yields the records themselves.
func (s *stream) whole(position int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range s.from(position) {
			for record, err := range s.data.Records(context.Background(), r.From, r.To) {
				if !yield(record, err) {
					return
				}
			}
		}
	}
}

// order yields the numbers, at most so many at a time.
func (s *stream) order(grain int64) func(int64) iter.Seq2[[]Range, error] {
	return func(position int64) iter.Seq2[[]Range, error] {
		return func(yield func([]Range, error) bool) {
			q := rangeQueue{}
			for q.push(s.from(position)); q.count > 0; {
				given := q.take(nil, min(grain, q.count))
				if !yield(given, nil) {
					return
				}
				clear(given) // Select must not keep it
			}
		}
	}
}

// by yields what a loader reads, and notes it.
func (s *stream) by(l *Loader) func([]Range) iter.Seq2[Record, error] {
	return func(list []Range) iter.Seq2[Record, error] {
		return func(yield func(Record, error) bool) {
			for record, err := range l.Records(list) {
				s.read = append(s.read, record.Number)
				if !yield(record, err) {
					return
				}
			}
		}
	}
}

// describeAll renders all batches with all their bits.
func describeAll(t rapid.TB, batches iter.Seq2[*Batch, error]) (all []string) {
	t.Helper()
	for b, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		var bits []uint32
		for _, v := range b.Tensors[0].Float32s() {
			bits = append(bits, math.Float32bits(v))
		}
		all = append(all, fmt.Sprint(describe(b), bits))
	}
	return all
}

// drawFiles writes samples into files of any layout, compressor and size of chunks.
func drawFiles(t *rapid.T, dir string) *Dataset {
	n, files := 0, rapid.IntRange(1, 4).Draw(t, "files")
	for i := range files {
		o := recordio.Options{ChunkRecords: rapid.IntRange(1, 12).Draw(t, "records of a chunk"),
			Layout:     rapid.SampledFrom([]recordio.Layout{recordio.Indexed, recordio.Plain}).Draw(t, "layout"),
			Compressor: rapid.SampledFrom([]recordio.Compressor{recordio.None, recordio.Snappy, recordio.Gzip}).Draw(t, "compressor")}
		end := n + rapid.IntRange(1, 40).Draw(t, "records of the file")
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), encoded(t, o, n, end), 0o600); err != nil {
			t.Fatal(err)
		}
		n = end
	}
	var globs []string
	for i := range files {
		globs = append(globs, filepath.Join(dir, fmt.Sprint("f", i)))
	}
	d, err := Open(context.Background(), globs)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Select makes the batches that Batches makes of the records themselves, bit for bit, from any batch on and in whatever steps the numbers come. It reads
// no record twice, none out of order, and, of batches that are known to be whole, none of another part.
func TestSelectIsBatches(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		d := drawFiles(rt, dir)
		s := drawStream(rt, d)
		o := BatchOptions{Fields: sampleFields, Rows: rapid.IntRange(1, 30).Draw(rt, "rows"), DropLast: rapid.Bool().Draw(rt, "drop last"),
			Slots: rapid.IntRange(1, 3).Draw(rt, "slots")}
		buffer := rapid.SampledFrom([]int{0, 1, 2, 5, 17, 30, 64, 500}).Draw(rt, "buffer")
		by := Shuffling{Buffer: buffer, Group: 1}
		if buffer%2 == 0 && rapid.Bool().Draw(rt, "pairs stay together") {
			by.Group = 2
		}
		seed, pass := rapid.Uint64().Draw(rt, "seed"), rapid.Uint64Range(0, 3).Draw(rt, "pass")
		by.Seed, by.Pass = seed, pass
		b, oracle := newBatcher(rt, o), newBatcher(rt, o)
		l := d.Loader(context.Background())
		defer l.Close()
		for range rapid.IntRange(1, 3).Draw(rt, "iterations") { // of one Batcher and Loader
			of := rapid.SampledFrom([]int{0, 1, 2, 3, 8, 64}).Draw(rt, "parts")
			part := Part{Of: of}
			if of > 0 {
				part.Index = rapid.IntRange(0, of-1).Draw(rt, "index")
			}
			first := rapid.Int64Range(0, int64(len(ranges.Of(s.list...)))+s.count()/int64(o.Rows)+2).Draw(rt, "first")
			grain := rapid.SampledFrom([]int64{1, 7, 50, 10000}).Draw(rt, "grain")
			want := describeAll(rt, oracle.Batches(ShuffleFrom(first*int64(o.Rows), s.whole, by), part))
			s.read = nil
			got := describeAll(rt, b.Select(Selection{Part: part, First: first, Shuffling: by, Order: s.order(grain), Read: s.by(l)}))
			if !slices.Equal(got, want) {
				rt.Fatalf("part %+v from batch %d on:\n%s\nwant\n%s", part, first, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if !slices.IsSorted(s.read) || len(slices.Compact(slices.Clone(s.read))) != len(s.read) {
				rt.Fatalf("read %v", s.read)
			}
			rows := 0
			for from := first * int64(o.Rows); from < s.count(); from += int64(o.Rows) {
				n := min(int64(o.Rows), s.count()-from)
				if from, to := part.Rows(int(n)); n == int64(o.Rows) || !o.DropLast {
					rows += to - from
				}
			}
			most := rows
			if buffer >= 2 { // the last batch may be read before it is known to be the last
				most += int(s.count() % int64(o.Rows))
			}
			if len(s.read) < rows || grain == 10000 && len(s.read) > most {
				rt.Fatalf("read %d records for %d rows: %v", len(s.read), rows, s.read)
			}
		}
	})
}

func (s *stream) count() int64 { return ranges.Count(s.list) }

// An error names the record that it is about: one that cannot be read, and one that does not fit.
func TestSelectNamesTheWrongRecord(t *testing.T) {
	d, _ := threeFiles(t)
	chunk := d.Chunks()[1] // of records 2 and 3
	content, err := os.ReadFile(chunk.Path)
	if err != nil {
		t.Fatal(err)
	}
	content[chunk.Offset+40] ^= 1
	if err := os.WriteFile(chunk.Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, buffer := range []int{0, 10} {
		for name, c := range map[string]struct {
			fields []Field
			from   int64
			kind   fault.Kind
			number int64
			ok     bool
		}{
			"damaged chunk": {sampleFields, 0, fault.Corrupt, 2, true},
			"other fields":  {sampleFields[:1], 7, fault.ShapeMismatch, 7, true},
			"sound":         {sampleFields, 4, fault.OK, 0, false},
		} {
			l := d.Loader(t.Context())
			s := &stream{data: d, list: []Range{{From: c.from, To: min(10, c.from+6)}}}
			var last error
			for _, err := range newBatcher(t, BatchOptions{Fields: c.fields, Rows: 10}).Select(Selection{Shuffling: Shuffling{Buffer: buffer}, Order: s.order(100), Read: s.by(l)}) {
				last = err
			}
			number, ok := RecordOf(last)
			if buffer > 0 && name == "other fields" && number >= c.from { // the first row, which any record can be
				number = c.number
			}
			if fault.KindOf(last) != c.kind || number != c.number || ok != c.ok {
				t.Errorf("%s, buffer %d: record %d, %v: %v", name, buffer, number, ok, last)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A trainer does not see damage in records of others.
func TestSelectReadsNothingOfOthers(t *testing.T) {
	d, _ := threeFiles(t)
	s := &stream{data: d, list: []Range{{From: 0, To: 10}}}
	damaged := func(list []Range) iter.Seq2[Record, error] {
		return func(yield func(Record, error) bool) {
			for record, err := range d.Loader(t.Context()).Records(list) {
				if record.Number == 6 {
					err = fault.New(fault.Corrupt, "damaged")
				}
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
	}
	for index := range 5 {
		var last error
		batches := 0
		for _, err := range newBatcher(t, BatchOptions{Rows: 10}).Select(Selection{Part: Part{index, 5}, Order: s.order(10), Read: damaged}) {
			last = err
			batches++
		}
		if number, ok := RecordOf(last); batches != 1 || ok != (index == 3) || ok && (number != 6 || !errors.Is(last, fault.Corrupt)) {
			t.Errorf("part %d: %d batches, record %d: %v", index, batches, number, last)
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	d, _ := threeFiles(t)
	s := &stream{data: d, list: []Range{{From: 0, To: 10}}}
	order := s.order(10)
	none := func([]Range) iter.Seq2[Record, error] { return func(func(Record, error) bool) {} }
	failing := func(int64) iter.Seq2[[]Range, error] {
		return func(yield func([]Range, error) bool) { yield(nil, fault.New(fault.Superseded, "over")) }
	}
	other := func([]Range) iter.Seq2[Record, error] { return d.Records(t.Context(), 5, 10) }
	for name, c := range map[string]struct {
		selection Selection
		kind      fault.Kind
	}{
		"a negative batch":           {Selection{First: -1, Order: order, Read: none}, fault.InvalidArgument},
		"a batch behind all numbers": {Selection{First: math.MaxInt64/4 + 1, Order: order, Read: none}, fault.InvalidArgument},
		"a part that is none":        {Selection{Part: Part{2, 2}, Order: order, Read: none}, fault.InvalidArgument},
		"an order that ends":         {Selection{Order: failing, Read: none}, fault.Superseded},
		"no records":                 {Selection{Order: order, Read: none}, fault.Internal},
		"no records to shuffle":      {Selection{Shuffling: Shuffling{Buffer: 5}, Order: order, Read: none}, fault.Internal},
		"other records":              {Selection{Order: order, Read: other}, fault.Internal},
		"behind the end":             {Selection{First: math.MaxInt64 / 4, Order: order, Read: none}, fault.OK},
		"shuffled behind the end":    {Selection{First: math.MaxInt64 / 4, Shuffling: Shuffling{Buffer: 1 << 30}, Order: order, Read: none}, fault.OK},
	} {
		if c.selection.Buffer == 1<<30 { // so many windows take too long to skip where records follow
			c.selection.Order = func(int64) iter.Seq2[[]Range, error] { return func(func([]Range, error) bool) {} }
		}
		n := 0
		for _, err := range newBatcher(t, BatchOptions{Rows: 4}).Select(c.selection) {
			if n++; fault.KindOf(err) != c.kind {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 && c.kind != fault.OK || n != 0 && c.kind == fault.OK {
			t.Errorf("%s: %d values", name, n)
		}
	}
}

func TestSelectAllocatesNearlyNothingOnceWarm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train")
	writeFile(t, path, 0, 10)
	d, err := Open(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	forever := func(int64) iter.Seq2[[]Range, error] {
		return func(yield func([]Range, error) bool) {
			for list := []Range{{From: 0, To: 5}, {From: 5, To: 10}}; yield(list, nil); {
			}
		}
	}
	for _, buffer := range []int{0, 16} {
		b := newBatcher(t, BatchOptions{Rows: 8})
		for _, part := range []Part{{}, {1, 3}, {0, 2}} {
			l := d.Loader(t.Context())
			next, stop := iter.Pull2(b.Select(Selection{Part: part, Shuffling: Shuffling{Buffer: buffer}, Order: forever, Read: l.Records}))
			for range 20 {
				if _, err, _ := next(); err != nil {
					t.Fatal(err)
				}
			}
			// What remains is closures of the iterations of Select and Loader.
			if allocs := testing.AllocsPerRun(50, func() { next() }); allocs > 6 {
				t.Errorf("buffer %d, %+v: %v allocations a batch", buffer, part, allocs)
			}
			stop()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
