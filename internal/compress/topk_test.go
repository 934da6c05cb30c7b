package compress_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/tensor"
)

// selected is the selection by its definition: sort by magnitude, then by index. It returns the entries, and changes residual.
func selected(k int, residual, gradient []float32) (indices []int32, bits []int32) {
	order := make([]int32, len(residual))
	for i := range residual {
		residual[i] += gradient[i]
		order[i] = int32(i)
	}
	size := func(i int32) uint32 { return math.Float32bits(residual[i]) &^ (1 << 31) }
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(size(b), size(a)) })
	indices = order[:k]
	slices.Sort(indices)
	for _, i := range indices {
		bits = append(bits, int32(math.Float32bits(residual[i])))
		residual[i] = 0
	}
	return indices, bits
}

// sameBits reports whether two slices have equal elements, where one NaN is as good as another.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y })
}

func floats(bits []int32) []float32 {
	all := make([]float32, len(bits))
	for i, b := range bits {
		all[i] = math.Float32frombits(uint32(b))
	}
	return all
}

// checkSelect compares a step with the definition.
func checkSelect(t interface{ Fatalf(string, ...any) }, s *compress.Selector, k int, residual, gradient []float32) {
	before, want := slices.Clone(residual), slices.Clone(residual)
	indices, bits := make([]int32, k), make([]int32, k)
	s.Select(indices, bits, residual, gradient)
	wantIndices, wantBits := selected(k, want, gradient)
	if !slices.Equal(indices, wantIndices) || !sameBits(floats(bits), floats(wantBits)) || !sameBits(residual, want) {
		t.Fatalf("%d of %v + %v:\n got %v %v, left %v\nwant %v %v, left %v", k, before, gradient, indices, floats(bits), residual,
			wantIndices, floats(wantBits), want)
	}
}

// Any elements: the entries are those of the definition, with ties, zeros of both signs, infinities and NaN.
func TestSelectByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		element := rapid.Custom(func(t *rapid.T) float32 {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return float32(rapid.IntRange(-2, 2).Draw(t, "x"))
			case 1:
				return math.Float32frombits(rapid.Uint32Range(0, 3).Draw(t, "bits") << 30 >> rapid.IntRange(0, 30).Draw(t, "shift"))
			}
			return math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		})
		s := compress.NewSelector(n, k)
		residual := make([]float32, n)
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			checkSelect(t, s, k, residual, rapid.SliceOfN(element, n, n).Draw(t, "gradient"))
		}
	})
}

// Large slices, where a sample finds candidates: also where it misleads, because all elements are equal, or few differ, or they follow a pattern.
func TestSelectFromLargeSlices(t *testing.T) {
	const n = 100_003
	random := rand.New(rand.NewPCG(3, 4))
	for name, element := range map[string]func(i int) float32{
		"normal":    func(int) float32 { return float32(random.NormFloat64()) },
		"zeros":     func(int) float32 { return 0 },
		"ones":      func(int) float32 { return -1 },
		"one":       func(i int) float32 { return float32(max(0, 2-i)) },
		"sparse":    func(i int) float32 { return float32(max(0, i%997-990)) },
		"ascending": func(i int) float32 { return float32(i) },
		"at the end": func(i int) float32 {
			if i < n-2000 {
				return 1e-9
			}
			return float32(i)
		},
		"not finite": func(i int) float32 {
			if i%5000 == 3 {
				return []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[i/5000%3]
			}
			return 1
		},
		"subnormal": func(i int) float32 { return math.Float32frombits(uint32(i % 1000)) },
	} {
		for _, k := range []int{1, 10, 100, 1000, n / 4, n} {
			t.Run(fmt.Sprint(name, " ", k), func(t *testing.T) {
				s, residual := compress.NewSelector(n, k), make([]float32, n)
				for range 3 {
					gradient := make([]float32, n)
					for i := range gradient {
						gradient[i] = element(i)
					}
					checkSelect(t, s, k, residual, gradient)
				}
			})
		}
	}
}

// Nothing is lost and nothing is sent twice: where sums are exact, what was sent and what is left is the sum of the gradients, bit for bit.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		residual, sum, sent := make([]float32, n), make([]float32, n), make([]float32, n)
		indices, bits := make([]int32, k), make([]int32, k)
		s := compress.NewSelector(n, k)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			gradient := make([]float32, n)
			for i := range gradient {
				gradient[i] = float32(rapid.IntRange(-1000, 1000).Draw(t, "x"))
				sum[i] += gradient[i]
			}
			s.Select(indices, bits, residual, gradient)
			for j, i := range indices {
				if residual[i] != 0 {
					t.Fatalf("element %d was sent, and %v of it is left", i, residual[i])
				}
				sent[i] += floats(bits)[j]
			}
			for i := range sum {
				if sent[i]+residual[i] != sum[i] {
					t.Fatalf("element %d: sent %v, left %v, want %v together", i, sent[i], residual[i], sum[i])
				}
			}
		}
	})
}

// What has grown for long enough is sent: of gradients that never change, each element is sent in turn.
func TestSmallElementsAreSentInTime(t *testing.T) {
	const n = 100
	residual, gradient, sent := make([]float32, n), make([]float32, n), make([]bool, n)
	for i := range gradient {
		gradient[i] = float32(1 + i)
	}
	s := compress.NewSelector(n, 5)
	indices, bits := make([]int32, 5), make([]int32, 5)
	for range 2000 {
		s.Select(indices, bits, residual, gradient)
		for _, i := range indices {
			sent[i] = true
		}
	}
	if i := slices.Index(sent, false); i >= 0 {
		t.Errorf("element %d was never sent: %v of it is left", i, residual[i])
	}
}

// A number that is not finite is sent in the step that computes it, before all others.
func TestNotFiniteIsSentFirst(t *testing.T) {
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		residual, gradient := make([]float32, 40_000), make([]float32, 40_000)
		for i := range residual {
			residual[i] = math.MaxFloat32 / 2
		}
		gradient[31_234] = x
		indices, bits := make([]int32, 1), make([]int32, 1)
		compress.NewSelector(len(residual), 1).Select(indices, bits, residual, gradient)
		if got := floats(bits)[0]; indices[0] != 31_234 || !(got == x || got != got && x != x) || residual[31_234] != 0 {
			t.Errorf("of %v, element %d is sent: %v, and %v is left", x, indices[0], got, residual[31_234])
		}
	}
}

func TestCheckIndices(t *testing.T) {
	for _, good := range [][]int32{{}, {0}, {0, 1, 9}, {9}} {
		if err := compress.CheckIndices(good, -1, 10); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range [][]int32{{-1}, {10}, {0, 0}, {3, 2}, {math.MaxInt32}, {math.MinInt32}} {
		if err := compress.CheckIndices(bad, -1, 10); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := compress.CheckIndices([]int32{4}, 4, 10); !errors.Is(err, fault.Corrupt) {
		t.Errorf("4 behind 4: %v", err)
	}
}

func TestEntriesOf(t *testing.T) {
	entries, _ := tensor.FromSlice([]int32{1, 5, 8, 9}, 2, 2)
	if indices, bits, ok := compress.EntriesOf(entries, 2); !ok || !slices.Equal(indices, []int32{1, 5}) || !slices.Equal(bits, []int32{8, 9}) {
		t.Errorf("%v, %v, %v", indices, bits, ok)
	}
	long, _ := tensor.FromSlice([]int32{1, 5}, 2)
	columns, _ := tensor.FromSlice([]int32{1, 5, 3}, 3, 1)
	whole, _ := tensor.FromSlice([]int64{1, 5}, 2, 1)
	for _, c := range []*tensor.Tensor{long, columns, whole} {
		if _, _, ok := compress.EntriesOf(c, 100); ok {
			t.Errorf("%v is taken for entries", c)
		}
	}
	if _, _, ok := compress.EntriesOf(entries, 1); ok {
		t.Error("2 entries of 1 element")
	}
}

// BenchmarkSelect selects from 16 MB: normal numbers, and of those that change slowly from step to step as a residual does.
func BenchmarkSelect(b *testing.B) {
	const n = 4 << 20
	random := rand.New(rand.NewPCG(1, 2))
	gradient := make([]float32, n)
	for i := range gradient {
		gradient[i] = float32(random.NormFloat64())
	}
	for _, c := range []struct {
		name string
		k    int
		zero int // of so many elements one is not 0; 0: all are 1
	}{{"1%", n / 100, 1}, {"1% of equal", n / 100, 0}, {"0.1%", n / 1000, 1}, {"25%", n / 4, 1}, {"1% of zeros", n / 100, 200}} {
		b.Run(c.name, func(b *testing.B) {
			own := slices.Clone(gradient)
			for i := range own {
				switch {
				case c.zero == 0:
					own[i] = 1
				case i%c.zero != 0:
					own[i] = 0
				}
			}
			residual, indices, bits := make([]float32, n), make([]int32, c.k), make([]int32, c.k)
			s := compress.NewSelector(n, c.k)
			b.SetBytes(4 * n)
			b.ReportAllocs()
			for b.Loop() {
				s.Select(indices, bits, residual, own)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}
