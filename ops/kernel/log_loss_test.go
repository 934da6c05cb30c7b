package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

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
