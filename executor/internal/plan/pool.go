package plan

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Pool is a fixed number of workers that run the steps of plans as soon as their inputs are ready, and the parts of large steps beside each
// other. The goroutine that runs a plan is one of the workers, so a pool of n has n-1 goroutines of its own and never more than n are at
// work for one plan. Several plans may run on one pool at the same time. A step that blocks keeps a worker busy.
type Pool struct {
	mu     sync.Mutex
	wake   sync.Cond
	ready  []task  // steps whose inputs are ready
	parted []*step // steps with parts that nobody has begun
	asleep int     // workers that wait for wake
	closed bool
	spins  bool // an idle worker looks for work for a while before it sleeps

	posted  atomic.Uint32 // changes whenever an idle worker may find something
	workers sync.WaitGroup
}

type task struct {
	flow  *dataflow
	index int
}

// NewPool starts the goroutines of a pool, which Close ends.
func NewPool(workers int) *Pool {
	p := &Pool{}
	p.wake.L = &p.mu
	p.spins = runtime.GOMAXPROCS(0) >= workers
	for lane := 1; lane < workers; lane++ {
		p.workers.Go(func() { p.work(lane, nil) })
	}
	return p
}

// Close ends the goroutines after the step that each is at. No plan may be running.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.notify(true)
	p.mu.Unlock()
	p.workers.Wait()
}

// run runs a segment to its end.
func (p *Pool) run(ctx context.Context, d *dataflow) error {
	if len(d.steps) == 0 {
		return nil
	}
	p.mu.Lock()
	d.reset(ctx)
	for _, i := range d.roots {
		p.ready = append(p.ready, task{d, i})
	}
	if len(d.roots) > 1 {
		p.notify(false)
	}
	p.mu.Unlock()
	p.work(0, d)
	d.ctx = nil
	return d.err
}

// work runs what there is until the pool is closed, or for a caller of run until its dataflow is done.
func (p *Pool) work(lane int, own *dataflow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case own != nil && own.remaining == 0:
			return
		case len(p.parted) > 0:
			p.help(lane, p.parted[len(p.parted)-1])
			continue
		}
		if t, ok := p.take(own); ok {
			p.execute(lane, t)
			continue
		}
		if p.closed {
			return
		}
		p.idle()
	}
}

// take removes the ready step that comes first in the program, so that sends begin early and temporaries die early. A caller of run takes only
// its own: it must not get stuck in a step of another plan.
func (p *Pool) take(own *dataflow) (t task, ok bool) {
	best := -1
	for i, have := range p.ready {
		if (own == nil || have.flow == own) && (best < 0 || have.index < p.ready[best].index) {
			best = i
		}
	}
	if best < 0 {
		return task{}, false
	}
	t = p.ready[best]
	last := len(p.ready) - 1
	p.ready[best] = p.ready[last]
	p.ready = p.ready[:last]
	return t, true
}

// execute runs a step and posts what becomes ready by it. The caller holds the lock, which is free meanwhile.
func (p *Pool) execute(lane int, t task) {
	d, s := t.flow, &t.flow.steps[t.index]
	if d.err == nil {
		if err := p.runStep(lane, d, s); err != nil {
			d.fail(t.index, err)
		}
	}
	found := 0
	for _, next := range d.successors[t.index] {
		if d.pending[next]--; d.pending[next] == 0 {
			p.ready = append(p.ready, task{d, next})
			if d.steps[next].nanos >= d.grain {
				found++
			}
		}
	}
	d.remaining--
	if d.remaining == 0 {
		p.notify(true) // the caller of run may sleep, and so may others
	} else if found > 1 {
		p.notify(false) // this worker takes one itself
	}
}
