package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
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
