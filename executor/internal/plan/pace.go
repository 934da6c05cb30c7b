package plan

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
)

// A pace is how much one core does in a nanosecond. It decides where threads pay, never what is computed.
type pace struct{ flops, bytes float64 }

// What was measured on one core of 117 GFLOP/s, with little to spare: at a pace that is too high fewer plans run on several workers than could
// gain, at one that is too low some lose.
var (
	cachedPace = pace{flops: 90, bytes: 80}
	memoryPace = pace{flops: 90, bytes: 10}
	scalarPace = pace{flops: 4, bytes: 5} // without vector instructions
)

// nearBytes is up to how many bytes of variables are expected to stay in a cache from step to step.
const nearBytes = 16 << 20

// dispatchTime is how many nanoseconds a piece takes beside its work.
const dispatchTime = 50

func (r pace) nanoseconds(cost ops.Cost) float64 {
	return dispatchTime + max(float64(cost.Flops)/r.flops, float64(cost.Bytes)/r.bytes)
}

// smallestPlan is how many times Request.Grain a plan must take one core, by estimate, to run on several workers. What one of them writes and
// another reads moves between their caches: half of the weights in each step. So a smaller plan would lose more by sharing its work than it could
// gain.
const smallestPlan = 50

// chooseWorkers estimates the plan as a whole. One that is too small is compiled for one worker, as if there were no other.
func (c *compiler) chooseWorkers() error {
	bytes := int64(0)
	for _, v := range c.order {
		bytes += v.bytes()
	}
	switch {
	case !kernel.Vectorized():
		c.pace = scalarPace
	case bytes > nearBytes:
		c.pace = memoryPace
	default:
		c.pace = cachedPace
	}
	nanos := 0.0
	for _, n := range c.nodes {
		nanos += c.pace.nanoseconds(n.cost)
	}
	if nanos < smallestPlan*float64(c.Grain) {
		c.Workers = 1
	}
	return nil
}
