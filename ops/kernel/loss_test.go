package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// labelled draws a batch with hard labels, some of them ignored, and soft labels that sum to 1.
type labelled struct {
	rows, classes int
	hard          []int64
	soft          []float64
	x, dloss      []float64
}

const ignored = -100

func drawLabelled(t *rapid.T) labelled {
	b := labelled{rows: rapid.IntRange(0, 4).Draw(t, "rows"), classes: rapid.IntRange(1, 7).Draw(t, "classes")}
	seed := rapid.Int64().Draw(t, "seed")
	b.x, b.dloss = positive[float64](seed, b.rows*b.classes), noise[float64](seed+1, b.rows)
	b.soft = softmaxReference(noise[float64](seed+2, b.rows*b.classes), b.rows, b.classes)
	for range b.rows {
		label := rapid.Int64Range(-1, int64(b.classes)-1).Draw(t, "label")
		if label < 0 {
			label = ignored
		}
		b.hard = append(b.hard, label)
	}
	return b
}

// hardLoss is the definition of the cross entropy of probabilities p.
func (b labelled) hardLoss(p []float64) []float64 {
	loss := make([]float64, b.rows)
	for r, l := range b.hard {
		if l != ignored {
			loss[r] = -math.Log(p[r*b.classes+int(l)])
		}
	}
	return loss
}

func (b labelled) softLoss(p []float64) []float64 {
	loss := make([]float64, b.rows)
	for i, w := range b.soft {
		loss[i/b.classes] -= w * math.Log(p[i])
	}
	return loss
}

func TestCrossEntropy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawLabelled(t)
		loss, dx := make([]float64, b.rows), make([]float64, len(b.x))
		CrossEntropy(loss, b.x, b.hard, b.rows, b.classes, ignored)
		nearAll(t, "hard loss", loss, b.hardLoss(b.x))
		CrossEntropyGrad(dx, b.x, b.hard, b.dloss, b.rows, b.classes, ignored)
		sameGradient(t, "hard dx", dx, gradientOf(b.x, func() float64 { return dot(b.hardLoss(b.x), b.dloss) }))

		CrossEntropySoft(loss, b.x, b.soft, b.rows, b.classes)
		nearAll(t, "soft loss", loss, b.softLoss(b.x))
		CrossEntropySoftGrad(dx, b.x, b.soft, b.dloss, b.rows, b.classes)
		sameGradient(t, "soft dx", dx, gradientOf(b.x, func() float64 { return dot(b.softLoss(b.x), b.dloss) }))

		single := make([]float32, b.rows)
		CrossEntropy(single, convert[float32](b.x), b.hard, b.rows, b.classes, ignored)
		nearAll(t, "float32 loss", single, b.hardLoss(b.x))
	})
}

func TestCrossEntropyOfProbabilityZero(t *testing.T) {
	loss := make([]float32, 1)
	if CrossEntropy(loss, []float32{0, 1}, []int64{0}, 1, 2, ignored); loss[0] != 1e20 {
		t.Errorf("loss %v, want 1e20", loss[0])
	}
	CrossEntropySoft(loss, []float32{0, 1}, []float32{0, 1}, 1, 2)
	nearAll(t, "a class of label 0", loss, []float64{0})
}

func TestSoftmaxCrossEntropy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawLabelled(t)
		p := softmaxReference(b.x, b.rows, b.classes)
		loss, softmax, dx := make([]float64, b.rows), make([]float64, len(b.x)), make([]float64, len(b.x))
		SoftmaxCrossEntropy(softmax, loss, b.x, b.hard, b.rows, b.classes, ignored)
		nearAll(t, "softmax", softmax, p)
		nearAll(t, "hard loss", loss, b.hardLoss(p))
		SoftmaxCrossEntropyGrad(dx, softmax, b.hard, b.dloss, b.rows, b.classes, ignored)
		sameGradient(t, "hard dx", dx, gradientOf(b.x, func() float64 {
			return dot(b.hardLoss(softmaxReference(b.x, b.rows, b.classes)), b.dloss)
		}))

		SoftmaxCrossEntropySoft(softmax, loss, b.x, b.soft, b.rows, b.classes)
		nearAll(t, "softmax", softmax, p)
		nearAll(t, "soft loss", loss, b.softLoss(p))
		SoftmaxCrossEntropySoftGrad(softmax, softmax, b.soft, b.dloss, b.rows, b.classes)
		sameGradient(t, "soft dx", softmax, gradientOf(b.x, func() float64 {
			return dot(b.softLoss(softmaxReference(b.x, b.rows, b.classes)), b.dloss)
		}))
	})
	loss, softmax := make([]float32, 1), make([]float32, 2)
	SoftmaxCrossEntropy(softmax, loss, []float32{-500, 500}, []int64{0}, 1, 2, ignored)
	nearAll(t, "loss of a hopeless row", loss, []float64{1000})
}

func TestFirstBadLabel(t *testing.T) {
	for _, c := range []struct {
		labels []int64
		want   int
	}{{nil, -1}, {[]int64{0, 2, ignored}, -1}, {[]int64{0, 3}, 1}, {[]int64{-1}, 0}} {
		if got := FirstBadLabel(c.labels, 3, ignored); got != c.want {
			t.Errorf("first bad label of %v is %d, want %d", c.labels, got, c.want)
		}
	}
}

func TestLogLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, seed := rapid.IntRange(0, 9).Draw(t, "n"), rapid.Int64().Draw(t, "seed")
		p, label, dout := positive[float64](seed, n), positive[float64](seed+1, n), noise[float64](seed+2, n)
		for i := range p {
			p[i] *= 0.8
		}
		const epsilon = 1e-4
		out, dp := make([]float64, n), make([]float64, n)
		f := func() float64 { LogLoss(out, p, label, epsilon); return dot(out, dout) }
		f()
		for i := range out {
			near(t, out[i], -label[i]*math.Log(p[i]+epsilon)-(1-label[i])*math.Log(1-p[i]+epsilon), 1, "loss[%d]", i)
		}
		LogLossGrad(dp, p, label, dout, epsilon)
		sameGradient(t, "dp", dp, gradientOf(p, f))
	})
}
