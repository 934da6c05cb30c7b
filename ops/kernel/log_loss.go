package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// LogLoss computes out = -label*log(p+epsilon) - (1-label)*log(1-p+epsilon), elementwise (Fluid's log_loss). The slices are of
// one length; out may be p.
func LogLoss[T tensor.Float](out, p, label []T, epsilon float64) {
	p, label = p[:len(out)], label[:len(out)]
	for i := range out {
		q, l := float64(p[i]), float64(label[i])
		out[i] = T(-l*math.Log(q+epsilon) - (1-l)*math.Log(1-q+epsilon))
	}
}

// LogLossGrad computes dp = dout*((1-label)/(1-p+epsilon) - label/(p+epsilon)). The slices are of one length; dp may be dout.
func LogLossGrad[T tensor.Float](dp, p, label, dout []T, epsilon float64) {
	p, label, dout = p[:len(dp)], label[:len(dp)], dout[:len(dp)]
	for i := range dp {
		q, l := float64(p[i]), float64(label[i])
		dp[i] = T(float64(dout[i]) * ((1-l)/(1-q+epsilon) - l/(q+epsilon)))
	}
}
