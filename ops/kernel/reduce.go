package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The reductions compute the iterations [from, to) of a plan, see ReducePlan.Iterations, and their gradients those of ReducePlan.GradIterations. They
// are given the whole of every slice: x and dx hold InCount elements, out and dout OutCount.

// ReduceSum adds what falls together under the plan.
func ReduceSum[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	clear(out[first:last])
	for c.at < c.end {
		if p.reduced {
			out[c.out] += T(sum(block(&c, x)))
			c.next(p)
			continue
		}
		blocks, elements := c.run(p)
		sumRows(kept(&c, out), x[c.at+c.lo:][:elements], blocks)
		c.skip(p, blocks)
	}
}

// ReduceMean is ReduceSum divided by the number of elements that fall together, NaN for none.
func ReduceMean[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	ReduceSum(p, out, x, from, to)
	_, first, last := p.forward(from, to)
	ratio := T(p.Ratio())
	for i := range out[first:last] {
		out[first+i] /= ratio
	}
}

// ReduceMax finds the largest of what falls together, NaN if there is one, -Inf for nothing.
func ReduceMax[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	Fill(out[first:last], T(math.Inf(-1)))
	for c.at < c.end {
		if p.reduced {
			out[c.out] = max(out[c.out], maxOf(block(&c, x)))
		} else {
			to := kept(&c, out)
			maxVectors(to, to, block(&c, x))
		}
		c.next(p)
	}
}

// ReduceSumGrad gives every element the gradient of the sum it fell into.
func ReduceSumGrad[T tensor.Float](p *ReducePlan, dx, dout []T, from, to int) {
	spread(p, dx, dout, 1, from, to)
}

// ReduceMeanGrad gives every element the gradient of the mean it fell into, divided by Ratio.
func ReduceMeanGrad[T tensor.Float](p *ReducePlan, dx, dout []T, from, to int) {
	spread(p, dx, dout, T(p.Ratio()), from, to)
}

func spread[T tensor.Float](p *ReducePlan, dx, dout []T, ratio T, from, to int) {
	for c := p.backward(from, to); c.at < c.end; {
		if p.reduced {
			Fill(block(&c, dx), dout[c.out]/ratio)
			c.next(p)
			continue
		}
		blocks, elements := c.run(p)
		repeated := dx[c.at+c.lo:][:elements]
		divScalar(repeated[:elements/blocks], kept(&c, dout), ratio)
		repeat(repeated, elements/blocks)
		c.skip(p, blocks)
	}
}

// repeat copies the first n elements over the rest, again and again.
func repeat[T any](x []T, n int) {
	if n == 1 {
		Fill(x[1:], x[0])
		return
	}
	for n < len(x) {
		n += copy(x[n:], x[:n])
	}
}

// ReduceMaxGrad gives every element that equals the maximum it fell into the gradient of that maximum, the others 0. Like
// Fluid, all of several equal maxima get it.
func ReduceMaxGrad[T tensor.Float](p *ReducePlan, dx, x, out, dout []T, from, to int) {
	for c := p.backward(from, to); c.at < c.end; c.next(p) {
		d, v, o, step := block(&c, dx), block(&c, x), c.out+c.lo, 1
		if p.reduced {
			o, step = c.out, 0
		}
		for i := range d {
			d[i] = 0
			if v[i] == out[o] {
				d[i] = dout[o]
			}
			o += step
		}
	}
}
