package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// benchRows draws a batch of 512 x 26 rows of a table of a million, small ones more often, as in a log of clicks.
func benchRows(seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, 2))
	rows := make([]int64, 512*26)
	for i := range rows {
		u := rng.Float64()
		rows[i] = int64(u * u * u * 1e6)
	}
	return rows
}

// benchBatches are enough batches that no cache holds the rows of all.
func benchBatches() [][]int64 {
	batches := make([][]int64, 64)
	for i := range batches {
		batches[i] = benchRows(uint64(i))
	}
	return batches
}

func BenchmarkSGDRows(b *testing.B) {
	batches := benchBatches()
	for name, width := range map[string]int{"width=1": 1, "width=10": 10} {
		b.Run(name, func(b *testing.B) {
			table, grad := make([]float32, 1000001*width), make([]float32, 512*26*width)
			SGD(table, table, 0)
			for i := 0; b.Loop(); i++ {
				SGDRows(table, batches[i%len(batches)], grad, width, 0.1)
			}
		})
	}
}

func BenchmarkGatherRows(b *testing.B) {
	batches := benchBatches()
	table, out := make([]float32, 1000001*10), make([]float32, 512*26*10)
	SGD(table, table, 0)
	run := func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			GatherRows(out, table, batches[i%len(batches)], 10)
		}
	}
	b.Run("batch", run)
	for _, rows := range batches {
		slices.Sort(rows)
	}
	b.Run("sorted", run)
}

func BenchmarkOrderRows(b *testing.B) {
	rows := benchRows(1)
	order, spare := make([]int64, len(rows)), make([]int64, len(rows))
	for b.Loop() {
		OrderRows(order, spare, rows, 1000001)
	}
}

func BenchmarkMergeRows(b *testing.B) {
	rows := benchRows(1)
	n := len(rows)
	ordered := OrderRows(make([]int64, n), make([]int64, n), rows, 1000001)
	for name, width := range map[string]int{"width=1": 1, "width=10": 10} {
		b.Run(name, func(b *testing.B) {
			values, sums, merged := make([]float32, n*width), make([]float32, 4096), make([]int64, 4096/width)
			for b.Loop() {
				for rest := ordered; len(rest) > 0; {
					_, taken := MergeRows(sums, merged, rest, 0, n, values, width)
					rest = rest[taken:]
				}
			}
		})
	}
}
