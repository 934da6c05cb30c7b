package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, seed := rapid.IntRange(0, 25).Draw(t, "n"), rapid.Int64().Draw(t, "seed")
		x, y := noise[float32](seed, n), noise[float32](seed+1, n)
		total, product, centred, deviation := 0.0, 0.0, 0.0, 0.0
		for i := range x {
			v, w := float64(x[i]), float64(y[i])
			total, product = total+v, product+v*w
			centred, deviation = centred+v*(w-0.3), deviation+(v-0.3)*(v-0.3)
		}
		near(t, sum(x), total, 1, "sum")
		near(t, sumProduct(x, y), product, 1, "sum of products")
		near(t, sumCentredProduct(x, y, 0.3), centred, 1, "sum of centred products")
		near(t, sumSquaredDeviation(x, 0.3), deviation, 1, "sum of squared deviations")
		if n > 0 {
			near(t, Mean(x), total/float64(n), 1, "mean")
		}

		out := slices.Clone(x)
		Accumulate(out, y)
		Accumulate(out, x)
		axpy, scaled := slices.Clone(x), make([]float32, n)
		Axpy(axpy, y, 0.25)
		Scale(scaled, y, 0.25, 0, true)
		for i := range x {
			near(t, out[i], 2*float64(x[i])+float64(y[i]), 1, "sum of arrays [%d]", i)
			near(t, axpy[i], float64(x[i])+0.25*float64(y[i]), 1, "axpy[%d]", i)
			near(t, scaled[i], 0.25*float64(y[i]), 1, "scaled[%d]", i)
		}
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		part := slices.Clone(x[cut:])
		Axpy(part, y[cut:], 0.25)
		sameBits(t, part, axpy[cut:])
	})
	if Mean([]float32{}) != 0 {
		t.Error("the mean of nothing is not 0")
	}
}

// The sums of rows have the bits of single sums, and so those of portable Go.
func TestSumsOfRowsHaveTheBitsOfSums(t *testing.T) {
	g := newGuards(t, 1)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows, width := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(0, 70).Draw(t, "width")
			x := guarded(g, 0, drawSpecial(t, rows*width+1)[:rows*width])
			got, want := noise[float32](1, rows), noise[float32](1, rows)
			addSums(got, x, width)
			for i := range want {
				want[i] += float32(sum(x[i*width:][:width]))
			}
			sameBits(t, got, want)
		})
	})
}

// The statistics of an image, whose channels are summed four at a time, have the bits of single channels, and so those of portable Go.
func TestSumsOfChannelsHaveTheBitsOfSums(t *testing.T) {
	g := newGuards(t, 2)
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			channels, hw := rapid.IntRange(1, 9).Draw(t, "channels"), rapid.IntRange(1, 40).Draw(t, "pixels")
			x := guarded(g, 0, drawSpecial(t, channels*hw))
			dout := guarded(g, 1, drawSpecial(t, channels*hw))
			centers := drawSpecial(t, channels)
			got, want := make([]float64, 4*channels), make([]float64, 4*channels)
			BatchNormParts(got[:2*channels], x, 1, channels, hw)
			BatchNormGradParts(got[2*channels:], x, dout, centers, 1, channels, hw)
			for ch := range channels {
				in, grad := x[ch*hw:][:hw], dout[ch*hw:][:hw]
				mean := sum(in) / float64(hw)
				want[ch], want[channels+ch] = mean, sumSquaredDeviation(in, mean)
				want[2*channels+ch], want[3*channels+ch] = sum(grad), sumCentredProduct(grad, in, float64(centers[ch]))
			}
			sameBits(t, got, want)
		})
	})
}
