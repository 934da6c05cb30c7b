package dataset

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The parts of a global batch are the global batch, whatever the number of rows, parts and the shuffling.
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
		}, 16, 5, 0)
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
