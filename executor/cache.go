package executor

import (
	"slices"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/program"
)

// cachedPlans is how many plans an executor keeps: enough for a training and a test program with their last batches, and a bound
// on the memory that batches of ever new sizes take.
const cachedPlans = 16

// planKey says what a plan was compiled for. A program that was changed has another fingerprint.
type planKey struct {
	program     *program.Program
	fingerprint uint64
	request     string // feeds with dtype and dims, and fetched names
}

// A planCache keeps the plans that were used last, the latest at the end.
type planCache struct {
	entries []cachedPlan
}

type cachedPlan struct {
	key  planKey
	plan *plan.Plan
}

func (c *planCache) get(key planKey) *plan.Plan {
	for i := range c.entries {
		if e := c.entries[i]; e.key == key {
			c.entries = append(slices.Delete(c.entries, i, i+1), e)
			return e.plan
		}
	}
	return nil
}

func (c *planCache) put(key planKey, p *plan.Plan) {
	if len(c.entries) == cachedPlans {
		c.entries = slices.Delete(c.entries, 0, 1)
	}
	c.entries = append(c.entries, cachedPlan{key, p})
}
