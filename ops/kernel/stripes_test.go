package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel"
)

// The order of stripes has each row once, and Row is the inverse of Position.
func TestStripesAreAPermutation(t *testing.T) {
	for rows := int64(0); rows < 3000; rows++ {
		s, seen := kernel.StripesOf(rows), make([]bool, rows)
		for row := range rows {
			at := s.Position(row)
			if at < 0 || at >= rows || seen[at] || s.Row(at) != row {
				t.Fatalf("row %d of %d is at %d, which has row %d", row, rows, at, s.Row(at))
			}
			seen[at] = true
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Int64Range(1, math.MaxInt32).Draw(t, "rows")
		row := rapid.Int64Range(0, rows-1).Draw(t, "row")
		s := kernel.StripesOf(rows)
		if at := s.Position(row); at < 0 || at >= rows || s.Row(at) != row {
			t.Fatalf("row %d of %d is at %d, which has row %d", row, rows, at, s.Row(at))
		}
	})
}

// shares counts the different ids of a batch that each of so many runs of the table has, of all batches together, as shares of an even division.
func shares(parts int64, rows int64, id func() int64, position func(int64) int64) (least, most float64) {
	const batches, size = 20, 4096
	counts, total := make([]float64, parts), 0.0
	for range batches {
		seen := map[int64]bool{}
		for range size {
			if row := id(); !seen[row] {
				seen[row] = true
				counts[position(row)*parts/rows]++
				total++
			}
		}
	}
	least, most = math.Inf(1), 0
	for _, n := range counts {
		least, most = min(least, n*float64(parts)/total), max(most, n*float64(parts)/total)
	}
	return least, most
}

// Each of several runs of equal length has its share of the ids, whether they follow Zipf's law, lie next to each other, or have a common factor.
func TestStripesSpreadIDs(t *testing.T) {
	const rows = 1_000_000
	s, random := kernel.StripesOf(rows), rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, rows-1)
	for name, id := range map[string]func() int64{
		"Zipf":      func() int64 { return int64(zipf.Uint64()) },
		"low":       func() int64 { return random.Int64N(rows / 50) },
		"of 256":    func() int64 { return random.Int64N(rows/256) * 256 },
		"of 1000":   func() int64 { return random.Int64N(rows/1000) * 1000 },
		"even":      func() int64 { return random.Int64N(rows/2) * 2 },
		"all alike": func() int64 { return random.Int64N(rows) },
	} {
		for _, parts := range []int64{2, 3, 4, 7} {
			least, most := shares(parts, rows, id, s.Position)
			fewest, largest := shares(parts, rows, id, func(row int64) int64 { return row })
			t.Logf("%s, %d runs: %.2f to %.2f of an even share, of rows in their own order %.2f to %.2f", name, parts, least, most, fewest, largest)
			if least < 0.9 || most > 1.1 {
				t.Errorf("%s: %d runs have %.2f to %.2f of an even share", name, parts, least, most)
			}
		}
	}
}
