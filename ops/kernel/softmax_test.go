package kernel

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// softmaxReference shifts nothing: inputs are small.
func softmaxReference(x []float64, rows, classes int) []float64 {
	out := make([]float64, len(x))
	for r := range rows {
		total := 0.0
		for c := range classes {
			out[r*classes+c] = math.Exp(x[r*classes+c])
			total += out[r*classes+c]
		}
		for c := range classes {
			out[r*classes+c] /= total
		}
	}
	return out
}

func testSoftmax[T tensor.Float](t *rapid.T) {
	rows, classes := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(0, 11).Draw(t, "classes")
	x := noise[T](rapid.Int64().Draw(t, "seed"), rows*classes)
	out := make([]T, len(x))
	Softmax(out, x, rows, classes)
	nearAll(t, "softmax", out, softmaxReference(convert[float64](x), rows, classes))
	if rows > 0 {
		last := make([]T, classes)
		Softmax(last, x[(rows-1)*classes:], 1, classes)
		sameBits(t, last, out[(rows-1)*classes:])
	}
}

func TestSoftmax(t *testing.T) {
	t.Run("float32", func(t *testing.T) { rapid.Check(t, testSoftmax[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testSoftmax[float64]) })
	out := make([]float32, 3)
	Softmax(out, []float32{1e38, -1e38, 1e38}, 1, 3)
	nearAll(t, "softmax of huge logits", out, []float64{0.5, 0, 0.5})
}

func TestSoftmaxGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, classes := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(1, 7).Draw(t, "classes")
		seed := rapid.Int64().Draw(t, "seed")
		x, dout := noise[float64](seed, rows*classes), noise[float64](seed+1, rows*classes)
		out, dx := make([]float64, len(x)), make([]float64, len(x))
		f := func() float64 { Softmax(out, x, rows, classes); return dot(out, dout) }
		f()
		SoftmaxGrad(dx, out, dout, rows, classes)
		sameGradient(t, "dx", dx, gradientOf(x, f))
	})
}

func TestTopK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, width := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(0, 12).Draw(t, "width")
		k := rapid.IntRange(0, width).Draw(t, "k")
		x := noise[float32](rapid.Int64().Draw(t, "seed"), rows*width)
		for i := range x {
			if rapid.IntRange(0, 9).Draw(t, "NaN") == 0 {
				x[i] = float32(math.NaN())
			}
		}
		values, indices := make([]float32, rows*k), make([]int64, rows*k)
		TopK(values, indices, x, rows, width, k)
		for r := range rows {
			order := make([]int, width)
			for i := range order {
				order[i] = i
			}
			key := func(i int) float64 {
				if v := float64(x[r*width+i]); !math.IsNaN(v) {
					return v
				}
				return math.Inf(-1)
			}
			sort.SliceStable(order, func(a, b int) bool { return key(order[a]) > key(order[b]) })
			for i := range k {
				if indices[r*k+i] != int64(order[i]) {
					t.Fatalf("row %d: indices %v, want %v", r, indices[r*k:][:k], order[:k])
				}
			}
			want := make([]float32, k)
			for i := range want {
				want[i] = x[r*width+order[i]]
			}
			sameBits(t, values[r*k:][:k], want)
		}
	})
}

func TestAccuracyCount(t *testing.T) {
	indices := []int64{3, 1, 0, 2, 2, 0}
	for k, labels := range map[int][]int64{1: {3, 0, 0, 2, 2, 1}, 2: {1, 3, 0}} {
		want := map[int]int{1: 4, 2: 2}[k]
		if got := AccuracyCount(indices, labels, k); got != want {
			t.Errorf("top %d: %d rows are right, want %d", k, got, want)
		}
	}
	if got := AccuracyCount(nil, nil, 5); got != 0 {
		t.Errorf("no rows: %d", got)
	}
	values, largest := make([]int64, 2), make([]int64, 2)
	if TopK(values, largest, []int64{1 << 53, 1<<53 + 1, 5}, 1, 3, 2); !slices.Equal(values, []int64{1<<53 + 1, 1 << 53}) {
		t.Errorf("top of int64: %v", values)
	}
}

func TestOneHot(t *testing.T) {
	out := []float32{9, 9, 9, 9, 9, 9}
	OneHot(out, []int64{2, 0}, 3)
	nearAll(t, "rows", out, []float64{0, 0, 1, 1, 0, 0})
}

func TestLabelSmooth(t *testing.T) {
	x := []float64{0, 1, 1, 0}
	out := make([]float64, 4)
	LabelSmooth(out, x, nil, 2, 0.5)
	nearAll(t, "uniform", out, []float64{0.25, 0.75, 0.75, 0.25})
	LabelSmooth(out, x, []float64{0.25, 0.75}, 2, 0.5)
	nearAll(t, "prior", out, []float64{0.125, 0.875, 0.625, 0.375})
}

// A label whose probability is as good as 0 has the gradient of one that is not: -1, and 1 for the class that was taken for sure. It is not NaN.
func TestSoftmaxOfAnUnlikelyLabel(t *testing.T) {
	for _, classes := range []int{2, 3, 16, 21} {
		for _, low := range []float32{-63, -200, -1e30, float32(math.Inf(-1))} {
			x, slope := make([]float32, classes), make([]float32, classes)
			for i := range x {
				x[i] = low
			}
			x[classes-1] = 0
			Softmax(x, x, 1, classes)
			CrossEntropyGrad(slope, x, []int64{0}, []float32{1}, 1, classes, -1)
			SoftmaxGrad(slope, x, slope, 1, classes)
			if math.Abs(float64(slope[0])+1) > 1e-6 || math.Abs(float64(slope[classes-1])-1) > 1e-6 {
				t.Errorf("%d classes, %g: probabilities %v, gradient %v", classes, low, x, slope)
			}
		}
	}
}
