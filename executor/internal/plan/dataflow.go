package plan

import (
	"context"
	"sync"
	"sync/atomic"
)

// A dataflow is one segment of a plan prepared for a pool: how many steps each step waits for, and which wait for it. All of it is made once and used
// by every run.
type dataflow struct {
	steps      []step
	degree     []int32   // predecessors within the segment
	successors [][]int32 // within the segment
	roots      []int32

	pending   []atomic.Int32 // predecessors that are not done in this run
	remaining atomic.Int32   // steps that are not done in this run
	done      chan struct{}  // gets one value when remaining reaches zero
	ctx       context.Context

	broken   atomic.Bool // a step failed: the rest is counted, not run
	mu       sync.Mutex
	err      error // of the failed step that comes first in the program
	errIndex int32
}

func newDataflow(p *Plan, predecessors [][]int, from, to int) *dataflow {
	n := to - from
	d := &dataflow{steps: p.steps[from:to], degree: make([]int32, n), successors: make([][]int32, n),
		pending: make([]atomic.Int32, n), done: make(chan struct{}, 1)}
	for i := range n {
		for _, earlier := range predecessors[from+i] {
			if earlier >= from {
				d.degree[i]++
				d.successors[earlier-from] = append(d.successors[earlier-from], int32(i))
			}
		}
		if d.degree[i] == 0 {
			d.roots = append(d.roots, int32(i))
		}
	}
	return d
}

func (d *dataflow) reset(ctx context.Context) {
	for i := range d.pending {
		d.pending[i].Store(d.degree[i])
	}
	d.remaining.Store(int32(len(d.steps)))
	d.broken.Store(false)
	d.ctx, d.err = ctx, nil
}

// run runs one step, unless another has failed.
func (d *dataflow) run(i int32) {
	if d.broken.Load() {
		return
	}
	err := d.steps[i].run(d.ctx)
	if err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || i < d.errIndex {
		d.err, d.errIndex = err, i
	}
	d.broken.Store(true)
}
