package kernel

import "github.com/edl-go/edl/tensor"

// Scale computes out = scale*x + bias, or out = scale*(x+bias) with biasAfterScale false (Fluid's scale). Its gradient is
// Scale of dout with bias 0. The slices are of one length; out may be x.
func Scale[T Number](out, x []T, scale, bias T, biasAfterScale bool) {
	x = x[:len(out)]
	v := vectorsFor[T](len(out))
	switch {
	case v != nil && biasAfterScale:
		v.ScaleBias(singles(out), singles(x), float32(scale), float32(bias))
		return
	case v != nil:
		v.BiasScale(singles(out), singles(x), float32(scale), float32(bias))
		return
	case biasAfterScale:
		for i := range out {
			out[i] = T(scale*x[i]) + bias
		}
		return
	}
	for i := range out {
		out[i] = scale * (x[i] + bias)
	}
}

// Clip computes out = x limited to [low, high] (Fluid's clip). NaN stays NaN. The slices are of one length; out may be x.
func Clip[T tensor.Float](out, x []T, low, high T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = min(max(x[i], low), high)
	}
}

// ClipGrad computes dx = dout where low < x < high, else 0. The slices are of one length; dx may be dout.
func ClipGrad[T tensor.Float](dx, x, dout []T, low, high T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if !(x[i] > low && x[i] < high) {
			g = 0
		}
		dx[i] = g
	}
}
