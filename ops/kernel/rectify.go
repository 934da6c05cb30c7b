package kernel

import "github.com/edl-go/edl/tensor"

// The functions of this file are linear in pieces: each writes f(x[i]) to out[i], and its gradient writes dx[i] = dout[i]*f'(x[i]). The slices of a call
// are of one length. out may be x, and dx may be dout. At a corner the gradient is that of the piece below, unless said. NaN gives NaN.

// Relu6 computes min(max(x, 0), top).
func Relu6[T tensor.Float](out, x []T, top T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = min(max(x[i], 0), top)
	}
}

// Relu6Grad reads out: dx = dout where 0 < out < top, else 0.
func Relu6Grad[T tensor.Float](dx, out, dout []T, top T) { ClipGrad(dx, out, dout, 0, top) }

// LeakyRelu computes x above 0, else alpha*x.
func LeakyRelu[T tensor.Float](out, x []T, alpha T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = max(x[i], 0) + T(alpha*min(x[i], 0))
	}
}

// LeakyReluGrad reads x: dx = dout above 0, else alpha*dout.
func LeakyReluGrad[T tensor.Float](dx, x, dout []T, alpha T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if !(x[i] > 0) {
			g *= alpha
		}
		dx[i] = g
	}
}

// HardSigmoid computes slope*x + offset limited to [0, 1].
func HardSigmoid[T tensor.Float](out, x []T, slope, offset T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = min(max(T(slope*x[i])+offset, 0), 1)
	}
}

// HardSigmoidGrad reads out: dx = slope*dout where 0 < out < 1, else 0.
func HardSigmoidGrad[T tensor.Float](dx, out, dout []T, slope T) {
	out, dout = out[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := slope * dout[i]
		if !(out[i] > 0 && out[i] < 1) {
			g = 0
		}
		dx[i] = g
	}
}

// HardSwish computes x*min(max(x+offset, 0), threshold)/scale.
func HardSwish[T tensor.Float](out, x []T, threshold, scale, offset T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = max(x[i], -offset) * min(max(x[i]+offset, 0), threshold) / scale // 0 for -Inf
	}
}

// HardSwishGrad reads x: dx = dout*(2*x+offset)/scale where 0 < x+offset < threshold, 0 below and dout*threshold/scale above.
func HardSwishGrad[T tensor.Float](dx, x, dout []T, threshold, scale, offset T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := T(2*x[i]) + offset
		switch y := x[i] + offset; {
		case y <= 0:
			g = 0
		case y >= threshold:
			g = threshold
		}
		dx[i] = dout[i] * g / scale
	}
}

// HardShrink computes x where |x| > threshold, else 0.
func HardShrink[T tensor.Float](out, x []T, threshold T) {
	x = x[:len(out)]
	for i := range out {
		y := x[i]
		if abs(y) <= threshold {
			y = 0
		}
		out[i] = y
	}
}

// HardShrinkGrad reads x: dx = dout where |x| > threshold, else 0.
func HardShrinkGrad[T tensor.Float](dx, x, dout []T, threshold T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if abs(x[i]) <= threshold {
			g = 0
		}
		dx[i] = g
	}
}

// SoftShrink computes x - lambda above lambda, x + lambda below -lambda, else 0. lambda is at least 0.
func SoftShrink[T tensor.Float](out, x []T, lambda T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = max(x[i]-lambda, 0) + min(x[i]+lambda, 0)
	}
}

// ThresholdedRelu computes x above threshold, else 0.
func ThresholdedRelu[T tensor.Float](out, x []T, threshold T) {
	x = x[:len(out)]
	for i := range out {
		y := x[i]
		if y <= threshold {
			y = 0
		}
		out[i] = y
	}
}

// ThresholdedReluGrad reads x: dx = dout above threshold, else 0.
func ThresholdedReluGrad[T tensor.Float](dx, x, dout []T, threshold T) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	for i := range dx {
		g := dout[i]
		if x[i] <= threshold {
			g = 0
		}
		dx[i] = g
	}
}

// Prelu computes x above 0, else alpha*x, for the elements [from, from+len(out)) of a tensor. Element i has the factor alpha[i/inner%len(alpha)].
func Prelu[T tensor.Float](out, x, alpha []T, from, inner int) {
	x = x[:len(out)]
	runs(from, len(out), inner, len(alpha), func(first, last, which int) {
		LeakyRelu(out[first:last], x[first:last], alpha[which])
	})
}

// PreluGrad computes dx = dout above 0, else alpha*dout, for the elements [from, from+len(dx)) of a tensor, as Prelu.
func PreluGrad[T tensor.Float](dx, x, alpha, dout []T, from, inner int) {
	x, dout = x[:len(dx)], dout[:len(dx)]
	runs(from, len(dx), inner, len(alpha), func(first, last, which int) {
		LeakyReluGrad(dx[first:last], x[first:last], dout[first:last], alpha[which])
	})
}

// PreluAlphaGrad computes the gradient of alpha: the sum of x*dout over the elements of a factor whose x is not above 0, in their order, in float64.
// sums is memory for as many numbers as dalpha has.
func PreluAlphaGrad[T tensor.Float](dalpha, x, dout []T, sums []float64, inner int) {
	dout, sums = dout[:len(x)], sums[:len(dalpha)]
	clear(sums)
	runs(0, len(x), inner, len(dalpha), func(first, last, which int) {
		sum := sums[which]
		for i := first; i < last; i++ {
			if !(x[i] > 0) {
				sum += float64(x[i]) * float64(dout[i])
			}
		}
		sums[which] = sum
	})
	for i, sum := range sums {
		dalpha[i] = T(sum)
	}
}

// runs divides n elements of a tensor, of which the first has number from, at the multiples of inner. Each run has one factor of so many.
func runs(from, n, inner, factors int, do func(first, last, which int)) {
	for at := 0; at < n; {
		number := from + at
		till := min(n, at+inner-number%inner)
		do(at, till, number/inner%factors)
		at = till
	}
}

// Maxout computes the largest of groups neighbouring channels. x has outer parts of groups*channels runs of inner elements, out outer parts of channels
// runs.
func Maxout[T tensor.Float](out, x []T, outer, channels, groups, inner int) {
	for r := range outer * channels {
		from, to := x[r*groups*inner:][:groups*inner], out[r*inner:][:inner]
		copy(to, from)
		for g := 1; g < groups; g++ {
			maxVectors(to, to, from[g*inner:][:inner])
		}
	}
}

// MaxoutGrad gives each dout to the first of the channels that equals out; the others get 0. Dims as in Maxout.
func MaxoutGrad[T tensor.Float](dx, x, out, dout []T, outer, channels, groups, inner int) {
	for r := range outer * channels {
		to, from := dx[r*groups*inner:][:groups*inner], x[r*groups*inner:][:groups*inner]
		y, g := out[r*inner:][:inner], dout[r*inner:][:inner]
		clear(to)
		for i := range inner {
			for c := i; c < len(from); c += inner {
				if from[c] == y[i] {
					to[c] = g[i]
					break
				}
			}
		}
	}
}
