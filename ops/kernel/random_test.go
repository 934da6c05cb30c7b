package kernel

import (
	"hash/fnv"
	"math"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// The known answers for philox4x32-10 of the Random123 library (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = philox4x32(c.counter[0], c.counter[1], c.counter[2], c.counter[3], c.key[0], c.key[1])
		if got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// Seed, stream and index must each land in their own part of counter and key.
func TestRandom64UsesEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, stream, index := rapid.Int64().Draw(t, "seed"), rapid.Uint64().Draw(t, "stream"), rapid.Uint64().Draw(t, "index")
		bit := uint64(1) << rapid.IntRange(0, 63).Draw(t, "bit")
		base := random64(seed, stream, index)
		for name, other := range map[string]uint64{
			"seed":   random64(int64(uint64(seed)^bit), stream, index),
			"stream": random64(seed, stream^bit, index),
			"index":  random64(seed, stream, index^bit),
		} {
			if other == base {
				t.Fatalf("changing bit %#x of the %s changes nothing", bit, name)
			}
		}
	})
}

func TestStreamOf(t *testing.T) {
	hash := fnv.New64a()
	hash.Write([]byte("\x03\x00\x00\x00\x00\x00\x00\x00fc_\x01\x00\x00\x00\x00\x00\x00\x00w"))
	if got, want := StreamOf("fc_", "w"), hash.Sum64(); got != want {
		t.Errorf("the stream of fc_ and w is %#x, want %#x", got, want)
	}
	seen := map[uint64][]string{}
	for _, names := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}} {
		s := StreamOf(names...)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q share a stream", names, other)
		}
		seen[s] = names
	}
}

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
