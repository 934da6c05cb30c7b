package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"pgregory.net/rapid"
)

// rowWidths are around the sizes that vectors and their pieces have.
var rowWidths = rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{31, 32, 40, 64}))

// Rows of a table between guards, in numbers below and above what is asked for ahead, are copied, put back and updated as their
// definitions say, with and without vector instructions in the same bits. Other rows stay as they are.
func TestRows(t *testing.T) {
	g := newGuards(t, 2)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			width, height := rowWidths.Draw(t, "width"), rapid.IntRange(1, 50).Draw(t, "height")
			rows := rapid.SliceOfN(rapid.Int64Range(0, int64(height-1)), 0, 200).Draw(t, "rows")
			table, values := drawSpecial(t, height*width), append(drawSpecial(t, len(rows)*width), 1)[:len(rows)*width]

			gathered := guarded(g, 0, make([]float32, len(values)))
			GatherRows(gathered, guarded(g, 1, table), rows, width)
			put, updated, want := guarded(g, 1, table), slices.Clone(table), slices.Clone(table)
			for i, row := range rows {
				sameBits(t, gathered[i*width:][:width], table[int(row)*width:][:width])
				copy(want[int(row)*width:], values[i*width:][:width])
				for j, v := range values[i*width:][:width] {
					updated[int(row)*width+j] -= float32(0.1 * v)
				}
			}
			ScatterRows(put, guarded(g, 0, values), rows, width)
			sameBits(t, put, want)
			param := guarded(g, 1, table)
			SGDRows(param, rows, guarded(g, 0, values), width, 0.1)
			sameBits(t, param, updated)
		})
	})
}

// Updates of rows that repeat are those of numbers of float64, within rounding.
func TestSGDRowsIsNearTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rowWidths.Draw(t, "width"), rapid.IntRange(1, 9).Draw(t, "height")
		rows := rapid.SliceOfN(rapid.Int64Range(0, int64(height-1)), 0, 40).Draw(t, "rows")
		param, grad := noise[float32](rapid.Int64().Draw(t, "seed"), height*width), noise[float32](7, len(rows)*width)
		want := convert[float64](param)
		for i, row := range rows {
			for j, v := range grad[i*width:][:width] {
				want[int(row)*width+j] -= 0.1 * float64(v)
			}
		}
		SGDRows(param, rows, grad, width, 0.1)
		for i := range param {
			near(t, param[i], want[i], float64(len(rows)), "param[%d]", i)
		}
	})
}

// A row number outside of the table is Go's panic at every level, after the rows before it, and touches nothing.
func TestRowsOutsideOfTheTablePanic(t *testing.T) {
	const width, height = 10, 7
	for level := simd.None; level <= simd.Available(); level++ {
		for _, bad := range []int64{-1, height, 1 << 40, -1 << 62} {
			for name, run := range map[string]func(table, other []float32, rows []int64){
				"gather":  func(table, other []float32, rows []int64) { GatherRows(other, table, rows, width) },
				"scatter": func(table, other []float32, rows []int64) { ScatterRows(table, other, rows, width) },
				"sgd":     func(table, other []float32, rows []int64) { SGDRows(table, rows, other, width, 0.1) },
			} {
				rows := make([]int64, 100)
				rows[80] = bad
				restore := simd.Use(level)
				func() {
					defer restore()
					defer func() {
						if recover() == nil {
							t.Errorf("%v: %s of row %d does not panic", level, name, bad)
						}
					}()
					run(make([]float32, height*width), make([]float32, len(rows)*width), rows)
				}()
			}
		}
	}
}

func TestRowsAllocateNothing(t *testing.T) {
	table, other, rows := noise[float32](1, 70), make([]float32, 30), []int64{6, 0, 6}
	noAllocation(t, func() { GatherRows(other, table, rows, 10) })
	noAllocation(t, func() { ScatterRows(table, other, rows, 10) })
	noAllocation(t, func() { SGDRows(table, rows, other, 10, 0.1) })
}

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

func TestEmbedding(t *testing.T) {
	table := []float32{0, 1, 10, 11, 20, 21}
	ids := []int64{2, 1, 2, 0}
	for _, c := range []struct {
		padding   int64
		out, grad []float64
	}{
		{NoPadding, []float64{20, 21, 10, 11, 20, 21, 0, 1}, []float64{7, 8, 3, 4, 6, 8}},
		{2, []float64{0, 0, 10, 11, 0, 0, 0, 1}, []float64{7, 8, 3, 4, 0, 0}},
	} {
		out, grad := make([]float32, 8), []float32{9, 9, 9, 9, 9, 9}
		Embedding(out, table, ids, 2, c.padding)
		nearAll(t, "rows", out, c.out)
		for _, rows := range [][2]int{{2, 3}, {0, 2}} {
			EmbeddingGrad(grad, ids, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, c.padding, rows[0], rows[1])
		}
		nearAll(t, "gradient", grad, c.grad)
	}
}

func TestFirstBadID(t *testing.T) {
	for _, c := range []struct {
		ids  []int64
		want int
	}{{nil, -1}, {[]int64{0, 2}, -1}, {[]int64{0, 3, -1}, 1}, {[]int64{-1}, 0}, {[]int64{1 << 62}, 0}} {
		if got := FirstBadID(c.ids, 3); got != c.want {
			t.Errorf("first bad id of %v is %d, want %d", c.ids, got, c.want)
		}
	}
}
