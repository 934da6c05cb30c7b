package kernel

import "math"

// A table of bfloat16 has half the bytes of one of float32. Its rows are computed with in float32: a lookup widens them, which is exact, and an update widens the
// rows that it changes, and rounds what comes out. Between 1 and 2 the numbers of bfloat16 are 2^-7 apart. Most updates are smaller than half of that, and would be
// lost for ever if they were rounded to nearest. So an update rounds by chance (Rounding): on average nothing is lost.

// Stored are the Go types in which tables are stored: float32, or the bits of bfloat16.
type Stored interface{ float32 | uint16 }

// GatherWide copies row rows[i] of table to row i of out, as float32. Rows are width long and row numbers are within table.
func GatherWide[T Stored](out []float32, table []T, rows []int64, width int) {
	switch table := any(table).(type) {
	case []float32:
		GatherRows(out, table, rows, width)
	case []uint16:
		for len(rows) > 0 && width > 0 {
			some := rows[:min(rowsAhead, len(rows))]
			touch(table, some, width)
			for i, row := range some {
				FromBFloat16(out[i*width:][:width], table[int(row)*width:][:width])
			}
			out, rows = out[len(some)*width:], rows[len(some):]
		}
	}
}

// GatherHalves copies row rows[i] of table to row i of out, bits as they are. Rows are width long and row numbers are within table.
func GatherHalves(out, table []uint16, rows []int64, width int) {
	for len(rows) > 0 && width > 0 {
		some := rows[:min(rowsAhead, len(rows))]
		touch(table, some, width)
		for i, row := range some {
			copy(out[i*width:][:width], table[int(row)*width:][:width])
		}
		out, rows = out[len(some)*width:], rows[len(some):]
	}
}

// ScatterNarrow copies row i of from to row rows[i] of table. It rounds to nearest, so it is exact for what GatherWide has read.
func ScatterNarrow(table []uint16, from []float32, rows []int64, width int) {
	for i, row := range rows {
		ToBFloat16(table[int(row)*width:][:width], from[i*width:][:width])
	}
}

// FillNarrow fills out with what fill writes to float32 elements, rounded to nearest. fill gets room, or a part of it, and the index in out of its first element.
func FillNarrow(out []uint16, room []float32, fill func(to []float32, first int)) {
	for from := 0; from < len(out); from += len(room) {
		some := room[:min(len(room), len(out)-from)]
		fill(some, from)
		ToBFloat16(out[from:][:len(some)], some)
	}
}

// A Rounding rounds numbers of float32 to bfloat16 by chance: up or down to a neighbour, each with a probability in proportion to how near it is, so the mean is the
// number itself. A number of bfloat16 stays what it is. (Gupta et al. 2015, "Deep learning with limited numerical precision".) Which way an element goes follows
// from Seed, Stream and the index of the element (Philox). So it does not depend on who rounds which part of a table.
type Rounding struct {
	Seed   int64
	Stream uint64
}

// Round rounds x to out, which has its length. first is the index of the first element in the whole table. Numbers beyond the range become infinite, a NaN stays one.
func (r Rounding) Round(out []uint16, x []float32, first uint64) {
	const lanes = 8 // numbers of 16 bits in 128
	key := uint64(r.Seed)
	for len(x) > 0 {
		block, lane := first/lanes, int(first%lanes)
		n := min(lanes-lane, len(x))
		r0, r1, r2, r3 := philox4x32(uint32(block), uint32(block>>32), uint32(r.Stream), uint32(r.Stream>>32), uint32(key), uint32(key>>32))
		words := [4]uint32{r0, r1, r2, r3}
		for i, v := range x[:n] {
			at := lane + i
			out[i] = bfloat16By(v, words[at/2]>>(16*(at%2))&0xffff)
		}
		x, out, first = x[n:], out[n:], first+uint64(n)
	}
}

// bfloat16By rounds up if what bfloat16 cannot hold and chance, below 2^16, add up to 2^16 or more.
func bfloat16By(x float32, chance uint32) uint16 {
	if x != x {
		return bfloat16Of(x)
	}
	return uint16((math.Float32bits(x) + chance) >> 16)
}

// NarrowInPlace rounds x to the nearest numbers of bfloat16.
func NarrowInPlace(x []float32) {
	for i, v := range x {
		x[i] = math.Float32frombits(uint32(bfloat16Of(v)) << 16)
	}
}
