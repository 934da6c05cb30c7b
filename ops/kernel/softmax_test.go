package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
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
