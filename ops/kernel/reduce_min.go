package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// ReduceMin finds the smallest of what falls together under the plan, NaN if there is one, +Inf for nothing. Its gradient
// is ReduceMaxGrad, which only asks which elements equal the result.
func ReduceMin[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	Fill(out[first:last], T(math.Inf(1)))
	for c.at < c.end {
		if p.reduced {
			for _, v := range block(&c, x) {
				out[c.out] = min(out[c.out], v)
			}
		} else {
			to := kept(&c, out)
			minVectors(to, to, block(&c, x))
		}
		c.next(p)
	}
}
