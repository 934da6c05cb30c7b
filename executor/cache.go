package executor

import (
	"slices"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/program"
)

// cachedPlans is how many plans an executor keeps: enough for a training and a test program with their last batches, and a bound
// on the memory that batches of ever new sizes take.
const cachedPlans = 16

// mostSizes is how many of them may be for the same request with feeds of other dims. For a further one, one of the plans gets the new dims (planCache.take).
const mostSizes = 8

// mostWithBlocks is mostSizes for a program with loops or branches. A plan has compiled what is in their blocks, and need not do so again for other dims.
const mostWithBlocks = 2

// sizesOf returns how many plans of p may be for feeds of other dims, at most most.
func sizesOf(p *program.Program, most int) int {
	if len(p.Blocks) > 1 {
		return mostWithBlocks
	}
	return most
}

// planKey says what a plan was compiled for.
type planKey struct {
	of      version
	request string // feeds with dtype and dims, and fetched names
	fetched string // the names alone
}

// A planCache keeps the plans that were used last, the latest at the end.
type planCache struct {
	entries []cachedPlan
	taken   int
}

type cachedPlan struct {
	key   planKey
	plan  *plan.Plan
	again bool // feeds have come again since it was put here
}

func (c *planCache) get(key planKey) *plan.Plan {
	for i := range c.entries {
		if e := c.entries[i]; e.key == key {
			e.again = true
			c.entries = append(slices.Delete(c.entries, i, i+1), e)
			return e.plan
		}
	}
	return nil
}

// oldestEvery is how often take takes the plan that was used longest ago. It is a prime: feeds that repeat a few sizes in a fixed order must not meet it always at
// the same one of them.
const oldestEvery = 17

// take takes out a plan of the same request for other feeds, if there are as many as may be; else it returns nil. Mostly it is the last one whose feeds have not come
// again: where dims are ever new one plan gets all of them, so what it touches stays in the processor's caches, and plans for dims that do come again stay, too. From
// time to time, or if there is none, it is the plan that was used longest ago: dims that came again before may do so no more.
func (c *planCache) take(key planKey, most int) *plan.Plan {
	n, oldest, last := 0, 0, -1
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := &c.entries[i]
		if e.key.of != key.of || e.key.fetched != key.fetched {
			continue
		}
		n, oldest = n+1, i
		if last < 0 && !e.again {
			last = i
		}
	}
	if n < most {
		return nil
	}
	if c.taken++; last < 0 || c.taken%oldestEvery == 0 {
		last = oldest
	}
	taken := c.entries[last].plan
	c.entries = slices.Delete(c.entries, last, last+1)
	return taken
}

func (c *planCache) put(key planKey, p *plan.Plan) {
	if len(c.entries) == cachedPlans {
		c.entries = slices.Delete(c.entries, 0, 1)
	}
	c.entries = append(c.entries, cachedPlan{key: key, plan: p})
}
