package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

func fills[T tensor.Float]() map[string]func(out []T, seed int64, stream, first uint64) {
	return map[string]func(out []T, seed int64, stream, first uint64){
		"uniform":   func(out []T, seed int64, stream, first uint64) { UniformFill(out, seed, stream, first, -2, 4) },
		"gaussian":  func(out []T, seed int64, stream, first uint64) { GaussianFill(out, seed, stream, first, 1, 3) },
		"truncated": func(out []T, seed int64, stream, first uint64) { TruncatedGaussianFill(out, seed, stream, first, 1, 3) },
		"dropout":   func(out []T, seed int64, stream, first uint64) { DropoutMask(out, 0.3, seed, stream, first) },
	}
}

func TestRandomSlicesEqualTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		from := rapid.IntRange(0, n).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		seed, stream, first := rapid.Int64().Draw(t, "seed"), rapid.Uint64().Draw(t, "stream"), rapid.Uint64().Draw(t, "first")
		wide := fills[float64]()
		for name, fill := range fills[float32]() {
			whole, part := make([]float32, n), make([]float32, to-from)
			fill(whole, seed, stream, first)
			fill(part, seed, stream, first+uint64(from))
			sameBits(t, part, whole[from:to])
			doubles := make([]float64, n)
			wide[name](doubles, seed, stream, first)
			sameBits(t, whole, convert[float32](doubles))
		}
	})
}

// The empirical distribution of many numbers must follow the distribution function (Kolmogorov-Smirnov).
func TestRandomDistributions(t *testing.T) {
	const n = 50000
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for name, cdf := range map[string]func(x float64) float64{
		"uniform":  func(x float64) float64 { return (x + 2) / 6 },
		"gaussian": func(x float64) float64 { return normal((x - 1) / 3) },
		"truncated": func(x float64) float64 {
			z := (x - 1) / 3
			if z < -2 || z > 2 {
				t.Fatalf("%v is beyond two standard deviations", x)
			}
			return (normal(z) - normal(-2)) / (normal(2) - normal(-2))
		},
	} {
		x := make([]float64, n)
		fills[float64]()[name](x, 7, StreamOf(name), 0)
		var counts [100]int
		for _, v := range x {
			counts[min(int(cdf(v)*100), 99)]++
		}
		below := 0
		for i, c := range counts {
			below += c
			if gap := math.Abs(float64(below)/n - float64(i+1)/100); gap > 0.01 {
				t.Errorf("%s: %v of the numbers lie below the %d-th percentile", name, float64(below)/n, i+1)
			}
		}
	}
}

func TestDropoutMask(t *testing.T) {
	const n = 20000
	mask := make([]float32, n)
	for _, probability := range []float64{0, 0.25, 1} {
		DropoutMask(mask, probability, 3, 4, 0)
		kept := 0
		for _, m := range mask {
			switch m {
			case 1:
				kept++
			case 0:
			default:
				t.Fatalf("mask holds %v", m)
			}
		}
		if got := 1 - float64(kept)/n; math.Abs(got-probability) > 0.02 || probability != 0.25 && got != probability {
			t.Errorf("%v dropped, want %v", got, probability)
		}
	}
}

func TestDropout(t *testing.T) {
	x, mask, out := []float32{1, 2, 3}, []float32{1, 0, 1}, make([]float32, 3)
	DropoutDowngrade(out, x, mask)
	nearAll(t, "downgrade", out, []float64{1, 0, 3})
	DropoutUpscale(out, x, mask, 0.5)
	nearAll(t, "upscale", out, []float64{2, 0, 6})
	DropoutUpscale(out, x, []float32{0, 0, 0}, 1)
	nearAll(t, "everything dropped", out, []float64{0, 0, 0})
}

func BenchmarkFill(b *testing.B) {
	out := make([]float32, 100_000)
	for name, fill := range fills[float32]() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(out)))
			for b.Loop() {
				fill(out, 1, 2, 0)
			}
		})
	}
}
