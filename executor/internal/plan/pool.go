package plan

import (
	"context"
	"sync"
)

// A Pool is a fixed number of goroutines that run the steps of plans as soon as their inputs are ready. Several plans may
// run on one pool at the same time. A step that blocks keeps a goroutine of the pool busy.
type Pool struct {
	mu      sync.Mutex
	wake    sync.Cond
	ready   []task // a stack: what became ready last has its inputs in the cache
	closed  bool
	workers sync.WaitGroup
}

type task struct {
	flow  *dataflow
	index int32
}

// NewPool starts workers goroutines, which Close ends.
func NewPool(workers int) *Pool {
	p := &Pool{}
	p.wake.L = &p.mu
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

// Close ends the goroutines after the step that each is at. No plan may be running.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.wake.Broadcast()
	p.mu.Unlock()
	p.workers.Wait()
}

// run runs a segment to its end.
func (p *Pool) run(ctx context.Context, d *dataflow) error {
	if len(d.steps) == 0 {
		return nil
	}
	d.reset(ctx)
	p.mu.Lock()
	for k := len(d.roots) - 1; k >= 0; k-- {
		p.ready = append(p.ready, task{d, d.roots[k]})
	}
	p.wake.Broadcast()
	p.mu.Unlock()
	<-d.done
	d.ctx = nil
	return d.err
}

func (p *Pool) work() {
	for {
		t, ok := p.next()
		if !ok {
			return
		}
		for ok {
			t.flow.run(t.index)
			t, ok = p.finish(t)
		}
	}
}

// next waits for a step that is ready. It returns false when the pool is closed.
func (p *Pool) next() (task, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) == 0 && !p.closed {
		p.wake.Wait()
	}
	if p.closed {
		return task{}, false
	}
	t := p.ready[len(p.ready)-1]
	p.ready = p.ready[:len(p.ready)-1]
	return t, true
}

// finish counts a step as done. Of the steps that become ready by it, the first is returned and the others are left to the pool.
func (p *Pool) finish(t task) (next task, ok bool) {
	d := t.flow
	for _, s := range d.successors[t.index] {
		if d.pending[s].Add(-1) != 0 {
			continue
		}
		if !ok {
			next, ok = task{d, s}, true
			continue
		}
		p.mu.Lock()
		p.ready = append(p.ready, task{d, s})
		p.wake.Signal()
		p.mu.Unlock()
	}
	if d.remaining.Add(-1) == 0 {
		d.done <- struct{}{}
	}
	return next, ok
}
