package kernel

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// exactSquareSum sums with enough bits for every float64 and rounds once.
func exactSquareSum[T tensor.Float](x []T) float64 {
	total := new(big.Float).SetPrec(8192)
	for _, v := range x {
		f := new(big.Float).SetPrec(8192).SetFloat64(float64(v))
		total.Add(total, f.Mul(f, f))
	}
	value, _ := total.Float64()
	return value
}

func TestSquareSumIsExactWhateverThePartition(t *testing.T) {
	anyFloat := rapid.Custom(func(t *rapid.T) float64 {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return math.Float64frombits(rapid.Uint64().Draw(t, "pattern") &^ (1 << 62)) // magnitude below 2
		case 1:
			return math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "mantissa"), rapid.IntRange(-540, -500).Draw(t, "exponent"))
		default:
			return rapid.Float64Range(-1e3, 1e3).Draw(t, "value")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(anyFloat, 0, 30).Draw(t, "x")
		whole := make([]int64, SquareSumWords)
		SquareSumAdd(whole, x)
		if got, want := SquareSumValue(whole), exactSquareSum(x); got != want {
			t.Fatalf("value %v, want %v", got, want)
		}

		shuffled := slices.Clone(x)
		if len(x) > 0 {
			shuffled = rapid.Permutation(x).Draw(t, "shuffled")
		}
		merged, added := make([]int64, SquareSumWords), make([]int64, SquareSumWords)
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(t, "part")
			part := make([]int64, SquareSumWords)
			SquareSumAdd(part, shuffled[:n])
			if rapid.Bool().Draw(t, "before") {
				SquareSumMerge(part, merged)
				merged = part
			} else {
				SquareSumMerge(merged, part)
			}
			again := make([]int64, SquareSumWords)
			SquareSumAdd(again, shuffled[:n])
			Accumulate(added, again) // what an op that sums int64 tensors does
			shuffled = shuffled[n:]
		}
		if !slices.Equal(merged, whole) {
			t.Fatalf("merged words differ: %v and %v", merged, whole)
		}
		if got, want := SquareSumValue(added), SquareSumValue(whole); got != want {
			t.Fatalf("value of added words %v, want %v", got, want)
		}
	})
}

func TestSquareSumOfFloat32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOf(rapid.Float32()).Draw(t, "x")
		words := make([]int64, SquareSumWords)
		SquareSumAdd(words, x)
		if got, want := SquareSumValue(words), exactSquareSum(x); got != want {
			t.Fatalf("value %v, want %v", got, want)
		}
	})
}

func TestSquareSumExtremes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{nil, 0},
		{[]float64{0, math.Copysign(0, -1)}, 0},
		{[]float64{inf, 1}, inf},
		{[]float64{math.Inf(-1)}, inf},
		{[]float64{inf, nan}, nan},
		{[]float64{math.MaxFloat64}, inf},
		{[]float64{0x1p511, 0x1p511}, 0x1p1023},
		{[]float64{math.Sqrt(math.MaxFloat64)}, exactSquareSum([]float64{math.Sqrt(math.MaxFloat64)})},
		{[]float64{math.SmallestNonzeroFloat64}, 0},
		{[]float64{0x1p-537}, 0x1p-1074},
		{[]float64{0x1p-538, 0x1p-538}, 0},                                         // half of the least subnormal: to even
		{[]float64{0x1p-538, 0x1p-538, 0x1p-1000}, 0x1p-1074},                      // just above half
		{[]float64{1, 0x1p-27, 0x1p-27}, 1},                                        // a tie, to even
		{[]float64{1, 0x1p-27, 0x1p-27, math.SmallestNonzeroFloat64}, 1 + 0x1p-52}, // just above the tie
		{[]float64{1, 0x1p-26, 0x1p-27, 0x1p-27}, 1 + 0x1p-51},                     // a tie, to even upwards
		{[]float64{0x1p500, 1}, 0x1p1000},                                          // far apart
		{slices.Repeat([]float64{math.Float64frombits(0x1fffffffffffff)}, 3), 0},   // all digits set
		{slices.Repeat([]float64{math.MaxFloat32}, 1000), exactSquareSum(slices.Repeat([]float64{math.MaxFloat32}, 1000))},
	} {
		words := make([]int64, SquareSumWords)
		SquareSumAdd(words, c.x)
		if got := SquareSumValue(words); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("square sum of %v is %v, want %v", c.x[:min(len(c.x), 4)], got, c.want)
		}
	}
}

func TestSquareSumAllocatesNothing(t *testing.T) {
	words, x := make([]int64, SquareSumWords), noise[float32](1, 50)
	noAllocation(t, func() {
		SquareSumAdd(words, x)
		SquareSumMerge(words, words)
		SquareSumValue(words)
	})
}

func BenchmarkSquareSum(b *testing.B) {
	x, words := noise[float32](1, 1_000_000), make([]int64, SquareSumWords)
	b.SetBytes(4_000_000)
	for b.Loop() {
		SquareSumAdd(words, x)
	}
}
