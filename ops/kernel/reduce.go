package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// ReduceSum adds what falls together under the plan. x holds InCount elements, out OutCount.
func ReduceSum[T tensor.Float](p *ReducePlan, out, x []T) {
	clear(out[:p.outCount])
	var c reduceCursor
	for at := 0; at < p.inCount; at += p.block {
		block := x[at:][:p.block]
		if p.reduced {
			out[c.out] += T(sum(block))
		} else {
			Accumulate(out[c.out:][:p.block], block)
		}
		c.next(p)
	}
}

// ReduceMean is ReduceSum divided by the number of elements that fall together, NaN for none.
func ReduceMean[T tensor.Float](p *ReducePlan, out, x []T) {
	ReduceSum(p, out, x)
	ratio := T(p.Ratio())
	for i := range out[:p.outCount] {
		out[i] /= ratio
	}
}

// ReduceMax finds the largest of what falls together, NaN if there is one, -Inf for nothing.
func ReduceMax[T tensor.Float](p *ReducePlan, out, x []T) {
	Fill(out[:p.outCount], T(math.Inf(-1)))
	var c reduceCursor
	for at := 0; at < p.inCount; at += p.block {
		block := x[at:][:p.block]
		if p.reduced {
			out[c.out] = max(out[c.out], maxOf(block))
		} else {
			to := out[c.out:][:p.block]
			maxVectors(to, to, block)
		}
		c.next(p)
	}
}

// ReduceSumGrad gives every element the gradient of the sum it fell into.
func ReduceSumGrad[T tensor.Float](p *ReducePlan, dx, dout []T) { spread(p, dx, dout, 1) }

// ReduceMeanGrad gives every element the gradient of the mean it fell into, divided by Ratio.
func ReduceMeanGrad[T tensor.Float](p *ReducePlan, dx, dout []T) { spread(p, dx, dout, T(p.Ratio())) }

func spread[T tensor.Float](p *ReducePlan, dx, dout []T, ratio T) {
	var c reduceCursor
	for at := 0; at < p.inCount; at += p.block {
		to := dx[at:][:p.block]
		if p.reduced {
			Fill(to, dout[c.out]/ratio)
		} else {
			divScalar(to, dout[c.out:][:p.block], ratio)
		}
		c.next(p)
	}
}

// ReduceMaxGrad gives every element that equals the maximum it fell into the gradient of that maximum, the others 0. Like
// Fluid, all of several equal maxima get it.
func ReduceMaxGrad[T tensor.Float](p *ReducePlan, dx, x, out, dout []T) {
	var c reduceCursor
	for at := 0; at < p.inCount; at += p.block {
		step := 1
		if p.reduced {
			step = 0
		}
		for i, o := 0, c.out; i < p.block; i, o = i+1, o+step {
			dx[at+i] = 0
			if x[at+i] == out[o] {
				dx[at+i] = dout[o]
			}
		}
		c.next(p)
	}
}
