package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// What bfloat16 holds stays as it is. Other numbers become one of the two neighbours, and on average themselves.
func TestRoundingKeepsTheMean(t *testing.T) {
	const draws = 40000
	r := Rounding{Seed: 7, Stream: 9}
	for _, x := range []float32{1, 1.001, -1.001, 0.3, 1e-30, -3e38, math.SmallestNonzeroFloat32, 0, 65537} {
		many, out := make([]float32, draws), make([]uint16, draws)
		Fill(many, x)
		r.Round(out, many, 3)
		low := uint16(math.Float32bits(x) >> 16)
		sum := 0.0
		for _, bits := range out {
			if bits != low && bits != low+1 || bits != low && math.Float32bits(x)<<16 == 0 {
				t.Fatalf("%v becomes %#x, and its neighbours are %#x and %#x", x, bits, low, low+1)
			}
			sum += float64(math.Float32frombits(uint32(bits) << 16))
		}
		step := math.Abs(float64(math.Float32frombits(uint32(low+1)<<16)) - float64(math.Float32frombits(uint32(low)<<16)))
		if off := math.Abs(sum/draws - float64(x)); off > 5*step/2/math.Sqrt(draws) { // five standard deviations
			t.Errorf("the mean of %v is off by %v of %v between neighbours", x, off, step)
		}
	}
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0x7fffffff)}
	out := make([]uint16, len(odd))
	r.Round(out, odd, 0)
	for i, want := range odd {
		if got := math.Float32frombits(uint32(out[i]) << 16); got != want && (got == got || want == want) {
			t.Errorf("%v becomes %v", want, got)
		}
	}
}

// A part of a table is rounded as it is in the whole, wherever it begins.
func TestRoundingOfParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 100)
	for i := range x {
		x[i] = random.Float32()
	}
	r, whole, parts := Rounding{Seed: -3, Stream: 1 << 60}, make([]uint16, len(x)), make([]uint16, len(x))
	const first = 1<<35 + 5
	r.Round(whole, x, first)
	for at := 0; at < len(x); {
		n := min(1+random.IntN(20), len(x)-at)
		r.Round(parts[at:][:n], x[at:][:n], first+uint64(at))
		at += n
	}
	if !slices.Equal(whole, parts) {
		t.Errorf("parts %v, whole %v", parts, whole)
	}
	other := make([]uint16, len(x))
	if (Rounding{Seed: -3, Stream: 1<<60 + 1}).Round(other, x, first); slices.Equal(whole, other) {
		t.Error("another stream rounds all elements the same way")
	}
}

// Rows of bfloat16 are read as what they stand for, and written back as they were.
func TestRowsOfBFloat16(t *testing.T) {
	for _, width := range []int{1, 3, 8, 17} {
		table := make([]uint16, 200*width)
		for i := range table {
			table[i] = uint16(i*37) & 0xbf7f // no NaN
		}
		rows := []int64{199, 0, 7, 7, 100}
		for len(rows) < 3*rowsAhead {
			rows = append(rows, int64(len(rows)*11%200))
		}
		wide, halves := make([]float32, len(rows)*width), make([]uint16, len(rows)*width)
		GatherWide(wide, table, rows, width)
		GatherHalves(halves, table, rows, width)
		for i, row := range rows {
			for j := range width {
				want := table[int(row)*width+j]
				if halves[i*width+j] != want || math.Float32bits(wide[i*width+j]) != uint32(want)<<16 {
					t.Fatalf("width %d, row %d: %#x and %v, want %#x", width, row, halves[i*width+j], wide[i*width+j], want)
				}
			}
		}
		back := make([]uint16, len(table))
		ScatterNarrow(back, wide, rows, width)
		if again := make([]uint16, len(halves)); true {
			if GatherHalves(again, back, rows, width); !slices.Equal(again, halves) {
				t.Errorf("width %d: rows come back otherwise", width)
			}
		}
	}
}
