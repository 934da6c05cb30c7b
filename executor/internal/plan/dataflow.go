package plan

import "context"

// A dataflow is one segment of a plan prepared for a pool: how many steps each step waits for, and which wait for it. All of it is made once and used
// by every run. What changes in a run is guarded by the pool's lock.
type dataflow struct {
	plan       *Plan
	grain      float64 // estimated nanoseconds from which on a step is worth waking a worker
	steps      []step
	degree     []int   // predecessors within the segment
	successors [][]int // within the segment
	roots      []int

	pending   []int // predecessors that are not done in this run
	remaining int   // steps that are not done in this run
	ctx       context.Context
	err       error // of the failed step that comes first in the program; the rest is then counted, not run
	errIndex  int
}

func (c *compiler) newDataflow(predecessors [][]int, from, to int) *dataflow {
	p := c.plan
	n := to - from
	d := &dataflow{plan: p, grain: float64(c.Grain), steps: p.steps[from:to], degree: make([]int, n), successors: make([][]int, n),
		pending: make([]int, n)}
	for i := range n {
		for _, earlier := range predecessors[from+i] {
			if earlier >= from {
				d.degree[i]++
				d.successors[earlier-from] = append(d.successors[earlier-from], i)
			}
		}
		if d.degree[i] == 0 {
			d.roots = append(d.roots, i)
		}
	}
	return d
}

func (d *dataflow) reset(ctx context.Context) {
	copy(d.pending, d.degree)
	d.remaining = len(d.steps)
	d.ctx, d.err = ctx, nil
}

// fail records the error of a step.
func (d *dataflow) fail(i int, err error) {
	if d.err == nil || i < d.errIndex {
		d.err, d.errIndex = err, i
	}
}
