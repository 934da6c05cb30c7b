package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

func newBatcher(t rapid.TB, o BatchOptions) *Batcher {
	t.Helper()
	if o.Fields == nil {
		o.Fields = sampleFields
	}
	b, err := NewBatcher(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// describe renders a batch: dims of the image, labels, place in the global batch, records.
func describe(b *Batch) string {
	return fmt.Sprintf("%s %v %d@%d/%d %v", b.Tensors[0], b.Tensors[1].Int64s(), b.Rows, b.RowOffset, b.GlobalRows, b.Records)
}

func TestBatches(t *testing.T) {
	d, _ := threeFiles(t)
	for _, c := range []struct {
		options BatchOptions
		part    Part
		want    []string
	}{
		{BatchOptions{Rows: 4}, Part{}, []string{
			"float32[4 3] [0 1 2 3] 4@0/4 [{0 4}]", "float32[4 3] [4 5 6 7] 4@0/4 [{4 8}]", "float32[2 3] [8 9] 2@0/2 [{8 10}]"}},
		{BatchOptions{Rows: 4, DropLast: true}, Part{}, []string{
			"float32[4 3] [0 1 2 3] 4@0/4 [{0 4}]", "float32[4 3] [4 5 6 7] 4@0/4 [{4 8}]"}},
		{BatchOptions{Rows: 7}, Part{1, 2}, []string{
			"float32[4 3] [3 4 5 6] 4@3/7 [{3 7}]", "float32[2 3] [8 9] 2@1/3 [{8 10}]"}},
		{BatchOptions{Rows: 9}, Part{0, 2}, []string{
			"float32[4 3] [0 1 2 3] 4@0/9 [{0 4}]", "float32[0 3] [] 0@0/1 []"}},
	} {
		b := newBatcher(t, c.options)
		for pass := range 2 {
			var got []string
			for batch, err := range b.Batches(d.Records(context.Background(), 0, 10), c.part) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, describe(batch))
			}
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("%+v, pass %d:\n%s\nwant\n%s", c.options, pass, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		}
	}
}

func TestBatchesStayValidForTheirSlots(t *testing.T) {
	d, _ := threeFiles(t)
	next, stop := iter.Pull2(newBatcher(t, BatchOptions{Rows: 2, Slots: 3}).Batches(d.Records(context.Background(), 0, 10), Part{}))
	defer stop()
	var kept []*Batch
	for range 3 {
		b, err, ok := next()
		if err != nil || !ok {
			t.Fatal(err)
		}
		kept = append(kept, b)
	}
	for i, b := range kept {
		if got, want := fmt.Sprint(b.Tensors[1].Int64s()), fmt.Sprintf("[%d %d]", 2*i, 2*i+1); got != want {
			t.Errorf("batch %d holds %s, want %s", i, got, want)
		}
	}
}

func TestBatchNamesTheWrongRecord(t *testing.T) {
	d, dir := threeFiles(t)
	for name, c := range map[string]struct {
		fields []Field
		kind   fault.Kind
		want   string
	}{
		"type": {[]Field{{"image", tensor.Float64, []int64{3}, 0}, sampleFields[1]}, fault.TypeMismatch,
			`variable "image": type mismatch: got float32[3], want float64[3]`},
		"dims": {[]Field{sampleFields[0], {"", tensor.Int64, []int64{2}, 0}}, fault.ShapeMismatch,
			`variable "field 1": shape mismatch: got int64[1], want int64[2]`},
		"count": {sampleFields[:1], fault.ShapeMismatch, "got 2 tensors, want 1, the fields that are read: image float32[3]"},
	} {
		for _, part := range []Part{{}, {0, 2}} {
			b := newBatcher(t, BatchOptions{Fields: c.fields, Rows: 4})
			for _, err := range b.Batches(d.Records(context.Background(), 6, 10), part) {
				place := filepath.Join(dir, "train-2") + ": record 6"
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// A single number is [] to some programs, such as those of Paddle 2 that feed labels of dims [-1], and [1] to those that write records.
func TestDimsOfSingleNumbersAreOne(t *testing.T) {
	d, _ := threeFiles(t)
	label := sampleFields[1]
	label.Dims = nil
	for batch, err := range newBatcher(t, BatchOptions{Fields: []Field{sampleFields[0], label}, Rows: 4}).Batches(d.Records(context.Background(), 0, 4), Part{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(batch.Tensors[1].Dims(), batch.Tensors[1].Int64s()); got != "[4] [0 1 2 3]" {
			t.Error(got)
		}
	}
	words := slices.Clone(wordFields)
	words[0].Dims = nil
	for batch, err := range newBatcher(t, BatchOptions{Fields: words, Rows: 2}).Batches(documents(t, []document{{2, []int{1}}, {1, []int{1}}}), Part{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(batch.Tensors[0].Dims(), batch.Tensors[0].Int64s(), batch.Tensors[0].LoD()); got != "[3] [0 1 100] [[0 2 3]]" {
			t.Error(got)
		}
	}
}

func TestBatchOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]BatchOptions{
		"no rows":      {Fields: sampleFields},
		"slots":        {Fields: sampleFields, Rows: 1, Slots: -1},
		"unknown dims": {Fields: []Field{{"x", tensor.Float32, []int64{-1}, 0}}, Rows: 1},
		"LoD levels":   {Fields: []Field{{"x", tensor.Int64, nil, 9}}, Rows: 1},
		"type":         {Fields: []Field{{"x", tensor.UInt8, []int64{1}, 0}}, Rows: 1},
	} {
		if _, err := NewBatcher(o); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := BatchOptions{Fields: []Field{{"x", tensor.Float32, []int64{1 << 20}, 0}}, Rows: 1 << 20}
	for _, err := range newBatcher(t, huge).Batches(numbered(1), Part{}) {
		if !errors.Is(err, fault.TooLarge) {
			t.Errorf("4 TiB: %v", err)
		}
	}
	for _, part := range []Part{{2, 2}, {1, 0}, {-1, 2}, {0, 1<<20 + 1}} {
		for _, err := range newBatcher(t, BatchOptions{Rows: 1}).Batches(numbered(1), part) {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("%+v: %v", part, err)
			}
		}
	}
}

// The parts of a global batch are the global batch, for all numbers of rows and parts, shuffled or not.
func TestPartsMakeTheWhole(t *testing.T) {
	records := make([][]byte, 60)
	for i := range records {
		records[i] = sample(t, i)
	}
	rapid.Check(t, func(rt *rapid.T) {
		n, rows, parts := rapid.IntRange(0, 60).Draw(rt, "n"), rapid.IntRange(1, 20).Draw(rt, "rows"), rapid.IntRange(1, 7).Draw(rt, "parts")
		seq := Shuffle(func(yield func(Record, error) bool) {
			for i := range n {
				if !yield(Record{Number: int64(i), Bytes: records[i]}, nil) {
					return
				}
			}
		}, Shuffling{Buffer: 16, Seed: 5})
		collect := func(part Part) (labels [][]int64, batches []Batch) {
			for b, err := range newBatcher(rt, BatchOptions{Fields: sampleFields, Rows: rows}).Batches(seq, part) {
				if err != nil {
					rt.Fatal(err)
				}
				at := 0
				for _, r := range b.Records {
					for number := r.From; number < r.To; number++ {
						if b.Tensors[1].Int64s()[at] != number {
							rt.Fatalf("row %d holds record %d, not %d", at, b.Tensors[1].Int64s()[at], number)
						}
						at++
					}
				}
				if at != b.Rows {
					rt.Fatalf("%d records accounted for in %d rows", at, b.Rows)
				}
				labels, batches = append(labels, append([]int64(nil), b.Tensors[1].Int64s()...)), append(batches, *b)
			}
			return labels, batches
		}
		whole, _ := collect(Part{})
		together := make([][]int64, len(whole))
		for i := range parts {
			labels, batches := collect(Part{i, parts})
			if len(labels) != len(whole) {
				rt.Fatalf("part %d has %d batches of %d", i, len(labels), len(whole))
			}
			for j, l := range labels {
				if batches[j].RowOffset != len(together[j]) || batches[j].GlobalRows != len(whole[j]) {
					rt.Fatalf("part %d of batch %d is at row %d of %d", i, j, batches[j].RowOffset, batches[j].GlobalRows)
				}
				together[j] = append(together[j], l...)
			}
		}
		if fmt.Sprint(together) != fmt.Sprint(whole) {
			rt.Fatalf("parts make %v, the whole is %v", together, whole)
		}
	})
}
