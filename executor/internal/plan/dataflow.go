package plan

import (
	"context"
	"slices"
	"time"
)

// A dataflow prepares one segment of a plan for a pool: how many steps each step waits for, and which steps wait for it. Compile makes it once; every
// run uses it again. The lock of the pool guards what changes during a run.
type dataflow struct {
	plan       *Plan
	grain      float64 // a step of at least so many nanoseconds, by estimate, is worth waking a worker
	steps      []step
	degree     []int   // predecessors within the segment
	successors [][]int // within the segment
	roots      []int

	pending   []int // predecessors that are not done in this run
	remaining int   // steps that are not done in this run
	ctx       context.Context
	declared  bool  // the send_barrier has run: no step looks at ctx any more
	err       error // of the failed step that comes first in the program; steps after an error are counted but do not run
	errIndex  int
}

func newDataflow(p *Plan, grain time.Duration, predecessors [][]int, from, to int) *dataflow {
	n := to - from
	d := &dataflow{plan: p, grain: float64(grain), steps: p.steps[from:to], degree: make([]int, n), successors: make([][]int, n),
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
	d.ctx, d.declared, d.err = ctx, false, nil
}

// fail records the error of a step.
func (d *dataflow) fail(i int, err error) {
	if d.err == nil || i < d.errIndex {
		d.err, d.errIndex = err, i
	}
}

// A touch is one use of memory that later steps must be ordered against.
type touch struct {
	span
	step  int
	write bool
}

// hazards returns for each step the earlier steps that must be done before it: those that write what it reads, and those that read or write memory
// that it writes. Ops that reach out of the process keep their order.
func hazards(steps []step, spaces *spaces) [][]int {
	outside := spaces.next(1)
	predecessors := make([][]int, len(steps))
	live := map[int][]touch{} // by space: the touches that may still be overlapped
	for i := range steps {
		var touches []touch
		for _, p := range steps[i].pieces {
			p.touches(func(v *variable, write bool) { touches = append(touches, touch{v.span, i, write}) })
			if p.goesOutside() {
				touches = append(touches, touch{outside, i, true})
			}
		}
		for _, t := range touches {
			for _, earlier := range live[t.space] {
				if earlier.step != i && earlier.overlaps(t.span) && (earlier.write || t.write) {
					predecessors[i] = append(predecessors[i], earlier.step)
				}
			}
		}
		for _, t := range touches {
			live[t.space] = append(forget(live[t.space], t), t)
		}
		slices.Sort(predecessors[i])
		predecessors[i] = slices.Compact(predecessors[i])
	}
	return predecessors
}

// forget drops the touches that a write t covers: a later step that waits for t also waits, through t, for them.
func forget(live []touch, t touch) []touch {
	if !t.write {
		return live
	}
	return slices.DeleteFunc(live, func(earlier touch) bool {
		return earlier.step != t.step && t.from <= earlier.from && earlier.to <= t.to
	})
}
