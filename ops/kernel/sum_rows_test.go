package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// Rows between guards are added in their order. The result is near the sum in float64, and has the bits of portable code for all numbers.
func TestSumRows(t *testing.T) {
	g := newGuards(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.OneOf(rapid.IntRange(1, narrow+9), rapid.IntRange(7, 17)).Draw(t, "width")
		rows := rapid.IntRange(0, 30).Draw(t, "rows")
		seed := rapid.Int64().Draw(t, "seed")
		x, start := noise[float32](seed, rows*width), noise[float32](seed+1, width)
		out := guarded(g, 0, start)
		sumRows(out, guarded(g, 1, x), rows)
		for i := range out {
			want := float64(start[i])
			for r := range rows {
				want += float64(x[r*width+i])
			}
			near(t, out[i], want, float64(rows+1), "sum of column %d", i)
		}
		x, start = append(drawSpecial(t, rows*width), 1), drawSpecial(t, width)
		out = guarded(g, 0, start)
		sumRows(out, guarded(g, 1, x[:rows*width]), rows)
		portable := slices.Clone(start)
		defer simd.Use(simd.None)()
		sumRows(portable, x, rows)
		sameBits(t, out, portable)
	})
}

// Sums over an axis in the middle and their gradients, with rows around the widths of vectors, are those of every element in turn, however
// they are cut.
func TestReduceOfMiddleAxis(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			outer, middle := rapid.IntRange(1, 4).Draw(t, "outer"), rapid.IntRange(1, 30).Draw(t, "middle")
			width := rapid.SampledFrom([]int{1, 2, 7, 8, 10, 16, 17, narrow, narrow + 1}).Draw(t, "width")
			p := NewReducePlan([]int{outer, middle, width}, []bool{false, true, false})
			x, want := noise[float32](rapid.Int64().Draw(t, "seed"), outer*middle*width), make([]float32, outer*width)
			for i := range outer {
				for m := range middle {
					for j := range width {
						want[i*width+j] += x[(i*middle+m)*width+j]
					}
				}
			}
			sameBits(t, inParts(t, outer, len(want), func(out []float32, from, to int) { ReduceSum(&p, out, x, from, to) }), want)
			dout := noise[float32](3, len(want))
			mean := inParts(t, outer, len(x), func(dx []float32, from, to int) { ReduceMeanGrad(&p, dx, dout, from, to) })
			for i := range x {
				if got, want := mean[i], dout[i/(middle*width)*width+i%width]/float32(middle); got != want {
					t.Fatalf("gradient %d of the mean is %v, want %v", i, got, want)
				}
			}
		})
	})
}
