package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawRows draws rows of a table of a height, with repeats.
func drawRows(r *rapid.T) (rows []int64, height int64) {
	height = rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1, 1<<40), rapid.Just[int64](1<<50)).Draw(r, "height")
	rows = rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 200).Draw(r, "rows")
	for i := range rows {
		if i > 0 && i%3 == 0 {
			rows[i] = rows[i/2]
		}
	}
	return rows, height
}

func TestOrderRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows, height := drawRows(r)
		n := len(rows)
		if !OrderableRows(n, height) {
			r.Fatalf("%d rows of %d are refused", n, height)
		}
		ordered := OrderRows(make([]int64, n), make([]int64, n), rows, height)
		places := make([]int, n)
		for i := range places {
			places[i] = i
		}
		slices.SortStableFunc(places, func(a, b int) int { return int(min(max(rows[a]-rows[b], -1), 1)) })
		for i, place := range places {
			if want := rows[place]<<placeBits(n) | int64(place); ordered[i] != want {
				r.Fatalf("entry %d is %x, want %x", i, ordered[i], want)
			}
		}
		from := rapid.Int64Range(0, height).Draw(r, "from")
		to := rapid.Int64Range(from, height).Draw(r, "to")
		count := 0
		for _, row := range rows {
			if row >= from && row < to {
				count++
			}
		}
		between := OrderedBetween(ordered, n, from, to)
		if len(between) != count || count > 0 && between[0]>>placeBits(n) < from {
			r.Fatalf("%d entries between %d and %d, want %d", len(between), from, to, count)
		}
	})
}

func TestOrderableRows(t *testing.T) {
	for _, c := range []struct {
		n      int
		height int64
		want   bool
	}{{0, 0, true}, {1, math.MaxInt64, true}, {2, math.MaxInt64, false}, {1 << 14, 1 << 48, true}, {1 << 14, 1 << 49, false}} {
		if got := OrderableRows(c.n, c.height); got != c.want {
			t.Errorf("%d rows of %d: %v", c.n, c.height, got)
		}
	}
}

// TestMergedRowsAreTheDenseGradient compares both ways to sum rows with EmbeddingGrad, bit for bit.
func TestMergedRowsAreTheDenseGradient(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		height := rapid.Int64Range(1, 60).Draw(r, "height")
		rows := rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 100).Draw(r, "rows")
		width := rapid.IntRange(1, 9).Draw(r, "width")
		n, values := len(rows), make([]float32, len(rows)*width)
		for i := range values {
			values[i] = float32(math.Sin(float64(i*i))) * float32(i%3)
			if i%5 == 0 {
				values[i] = float32(math.Copysign(0, -1))
			}
		}
		want := make([]float32, int(height)*width)
		EmbeddingGrad(want, rows, values, width, NoPadding, 0, int(height))
		ordered := OrderRows(make([]int64, n), make([]int64, n), rows, height)

		merged := make([]float32, len(want))
		block := rapid.IntRange(1, 8).Draw(r, "block")
		sums, touched := make([]float32, block*width), make([]int64, block)
		for rest := ordered; len(rest) > 0; {
			k, taken := MergeRows(sums, touched, rest, 0, n, values, width)
			ScatterRows(merged, sums[:k*width], touched[:k], width)
			rest = rest[taken:]
		}
		if !slices.Equal(bitsOf32(merged), bitsOf32(want)) {
			r.Fatalf("merged %v, want %v", merged, want)
		}

		added := make([]float32, len(want))
		rest := ordered
		for row := 0; row < int(height); row += block {
			part := added[row*width : min(row+block, int(height))*width]
			rest = rest[AddRowsFrom(part, int64(row), rest, n, values, width):]
		}
		if len(rest) != 0 || !slices.Equal(bitsOf32(added), bitsOf32(want)) {
			r.Fatalf("added %v and left %d, want %v", added, len(rest), want)
		}
	})
}

func bitsOf32(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

func TestScatterUndoesGather(t *testing.T) {
	for _, width := range []int{1, 3} {
		table := make([]float64, 10*width)
		for i := range table {
			table[i] = float64(i)
		}
		rows, copied := []int64{9, 0, 4}, make([]float64, 10*width)
		out := make([]float64, 3*width)
		GatherRows(out, table, rows, width)
		ScatterRows(copied, out, rows, width)
		for row := range int64(10) {
			want := table[int(row)*width:][:width]
			if !slices.Contains(rows, row) {
				want = make([]float64, width)
			}
			if got := copied[int(row)*width:][:width]; !slices.Equal(got, want) {
				t.Errorf("row %d of width %d is %v, want %v", row, width, got, want)
			}
		}
	}
}
