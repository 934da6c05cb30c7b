package executor

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/tensor"
)

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
	for r := range dataset.Shuffle(s.open(0), p.ShuffleBuffer, uint64(p.ShuffleSeed), uint64(pass)) {
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
