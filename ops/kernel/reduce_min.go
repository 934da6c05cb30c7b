package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// ReduceMin finds the smallest of what falls together under the plan, NaN if there is one, +Inf for nothing. Its gradient
// is ReduceMaxGrad, which only asks which elements equal the result.
func ReduceMin[T tensor.Float](p *ReducePlan, out, x []T) {
	Fill(out[:p.outCount], T(math.Inf(1)))
	var c reduceCursor
	for at := 0; at < p.inCount; at += p.block {
		block := x[at:][:p.block]
		if p.reduced {
			for _, v := range block {
				out[c.out] = min(out[c.out], v)
			}
		} else {
			to := out[c.out:][:p.block]
			minVectors(to, to, block)
		}
		c.next(p)
	}
}
