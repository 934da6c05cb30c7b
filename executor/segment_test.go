package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestSegmentIsTheTailOfTheWhole(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rapid.Check(t, func(rt *rapid.T) {
		p := reader.Pipeline{
			Batch: rapid.IntRange(1, 12).Draw(rt, "batch"), DropLast: rapid.Bool().Draw(rt, "drop last"), Prefetch: rapid.IntRange(0, 3).Draw(rt, "prefetch"),
			ShuffleBuffer: rapid.IntRange(0, 30).Draw(rt, "shuffle"), ShuffleSeed: rapid.Int64().Draw(rt, "seed"),
		}
		r := numbersReader(rt, p)
		for range rapid.IntRange(1, 4).Draw(rt, "segments") { // of one reader, with other parts
			s := &stream{n: rapid.Int64Range(0, 100).Draw(rt, "records"), base: rapid.Int64Range(0, 1000).Draw(rt, "base")}
			of := rapid.IntRange(0, 5).Draw(rt, "parts")
			part := dataset.Part{Of: of}
			if of > 0 {
				part.Index = rapid.IntRange(0, of-1).Draw(rt, "index")
			}
			pass := rapid.IntRange(0, 3).Draw(rt, "pass")
			want := model(p, s, pass, part)
			first := rapid.IntRange(0, len(want)+3).Draw(rt, "first")
			if first < len(want) && rapid.Bool().Draw(rt, "leave one half read") {
				for range r.Segment(context.Background(), Segment{Pass: pass, Part: part, Open: s.open}) {
					break
				}
			}
			s.reads = nil
			got := collect(rt, r, Segment{Pass: pass, Part: part, First: int64(first), Open: s.open})
			if tail := want[min(first, len(want)):]; !slices.Equal(got, tail) {
				rt.Fatalf("from batch %d of %d on:\n%q\nwant\n%q", first, len(want), got, tail)
			}
			size := max(1, p.ShuffleBuffer)
			if begin := int64(first * p.Batch / size * size); len(s.reads) > 0 && s.reads[0] != begin {
				rt.Fatalf("reading began at record %d, want %d", s.reads[0], begin)
			}
		}
	})
}

// A round that was dropped may be trained again by another number of members: their parts are the same batch.
func TestSegmentWithOtherPartsIsTheSameBatch(t *testing.T) {
	s := &stream{n: 64}
	r := numbersReader(t, reader.Pipeline{Batch: 10, ShuffleBuffer: 7, ShuffleSeed: 3})
	for first := range int64(7) {
		var whole string
		for _, of := range []int{1, 3, 2, 5} {
			var numbers []int64
			for index := range of {
				for b, err := range r.Segment(t.Context(), Segment{Part: dataset.Part{Index: index, Of: of}, First: first, Open: s.open}) {
					if err != nil {
						t.Fatal(err)
					}
					numbers = append(numbers, b.Tensors[0].Int64s()...)
					break
				}
			}
			if of == 1 {
				whole = fmt.Sprint(numbers)
			}
			if fmt.Sprint(numbers) != whole {
				t.Errorf("batch %d in %d parts is %v, whole %s", first, of, numbers, whole)
			}
		}
	}
}

func TestSegmentRefuses(t *testing.T) {
	r := numbersReader(t, reader.Pipeline{Batch: 10})
	s := &stream{n: 64}
	for name, segment := range map[string]Segment{
		"a negative batch":           {First: -1},
		"a batch behind all numbers": {First: math.MaxInt64/10 + 1},
		"a part that is none":        {Part: dataset.Part{Index: 2, Of: 2}},
	} {
		segment.Open = s.open
		n := 0
		for _, err := range r.Segment(t.Context(), segment) {
			if n++; !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d values", name, n)
		}
	}
	if got := collect(t, r, Segment{First: math.MaxInt64 / 10, Open: s.open}); got != nil {
		t.Errorf("far behind the end: %v", got)
	}
}

func TestSegmentEndsWithTheContext(t *testing.T) {
	for _, prefetch := range []int{0, 2} {
		r := numbersReader(t, reader.Pipeline{Batch: 4, ShuffleBuffer: 3, Prefetch: prefetch})
		ctx, cancel := context.WithCancel(t.Context())
		waiting := func(int64) iter.Seq2[dataset.Record, error] {
			return func(yield func(dataset.Record, error) bool) {
				cancel()
				<-ctx.Done()
				yield(dataset.Record{}, fault.E(fault.Canceled, fault.Cause(ctx.Err())))
			}
		}
		for _, err := range r.Segment(ctx, Segment{First: 5, Open: waiting}) {
			if !errors.Is(err, fault.Canceled) {
				t.Errorf("prefetch %d: %v", prefetch, err)
			}
		}
	}
}

func TestSegmentAllocatesNothingOnceWarm(t *testing.T) {
	record := numberRecord(5)
	forever := func(int64) iter.Seq2[dataset.Record, error] {
		return func(yield func(dataset.Record, error) bool) {
			for yield(record, nil) {
			}
		}
	}
	r := numbersReader(t, reader.Pipeline{Batch: 16, ShuffleBuffer: 8})
	for _, part := range []dataset.Part{{}, {Index: 1, Of: 3}, {Index: 0, Of: 2}} { // of one reader
		next, stop := iter.Pull2(r.Segment(t.Context(), Segment{Part: part, First: 2, Open: forever}))
		defer stop()
		for range 4 {
			next()
		}
		if allocs := testing.AllocsPerRun(20, func() { next() }); allocs > 0.2 {
			t.Errorf("%+v: %v allocations a batch", part, allocs)
		}
		stop()
	}
}

// stream is a stream of n records, record i of it numbered base+i and holding that number. It notes what is read.
type stream struct {
	n, base int64
	reads   []int64 // positions, in order
}

func (s *stream) open(from int64) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		for ; from < s.n; from++ {
			s.reads = append(s.reads, from)
			if !yield(numberRecord(s.base+from), nil) {
				return
			}
		}
	}
}

func numberRecord(number int64) dataset.Record {
	t, _ := tensor.FromSlice([]int64{number})
	return dataset.Record{Number: number, File: "numbers", Bytes: dataset.AppendRecord(nil, t)}
}

func numbersReader(t rapid.TB, p reader.Pipeline) *Reader {
	t.Helper()
	fields := []dataset.Field{{Name: "number", DType: tensor.Int64, Dims: []int64{1}}}
	b, err := dataset.NewBatcher(dataset.BatchOptions{Fields: fields, Rows: p.Batch, DropLast: p.DropLast, Slots: max(1, p.Prefetch+2)})
	if err != nil {
		t.Fatal(err)
	}
	p.Dataset = "numbers"
	return &Reader{pipeline: p, data: new(dataset.Dataset), batcher: b}
}

// collect describes all batches of a segment.
func collect(t rapid.TB, r *Reader, s Segment) (batches []string) {
	t.Helper()
	for b, err := range r.Segment(context.Background(), s) {
		if err != nil {
			t.Fatal(err)
		}
		row := 0
		for _, records := range b.Records {
			for number := records.From; number < records.To; number++ {
				if got := b.Tensors[0].Int64s()[row]; got != number {
					t.Fatalf("row %d holds record %d, not %d", row, got, number)
				}
				row++
			}
		}
		if row != b.Rows || b.Tensors[0].Dims()[0] != int64(row) {
			t.Fatalf("%d records in %d rows, tensors of %v", row, b.Rows, b.Tensors[0].Dims())
		}
		batches = append(batches, fmt.Sprintf("%d rows from %d of %d: %v", b.Rows, b.RowOffset, b.GlobalRows, b.Records))
	}
	return batches
}

// model says what the batches of a whole segment are, by what Shuffle and Part promise and nothing else.
func model(p reader.Pipeline, s *stream, pass int, part dataset.Part) (batches []string) {
	var numbers []int64
	for r := range dataset.Shuffle(s.open(0), dataset.Shuffling{Buffer: p.ShuffleBuffer, Group: p.ShuffleGroup, Seed: uint64(p.ShuffleSeed), Pass: uint64(pass)}) {
		numbers = append(numbers, r.Number)
	}
	for global := range slices.Chunk(numbers, p.Batch) {
		if len(global) < p.Batch && p.DropLast {
			continue
		}
		from, to := part.Rows(len(global))
		var ranges []dataset.Range
		for _, n := range global[from:to] {
			if last := len(ranges) - 1; last >= 0 && ranges[last].To == n {
				ranges[last].To++
			} else {
				ranges = append(ranges, dataset.Range{From: n, To: n + 1})
			}
		}
		batches = append(batches, fmt.Sprintf("%d rows from %d of %d: %v", to-from, from, len(global), ranges))
	}
	return batches
}
