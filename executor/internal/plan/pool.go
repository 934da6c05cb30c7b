package plan

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/ops"
)

// A Pool is a fixed number of workers. They run each step of a plan as soon as its inputs are ready, and the parts of large steps at the same time.
// The goroutine that runs a plan is one of the workers. So a pool of n has n-1 goroutines of its own, and at most n work for one plan. Several plans
// may run on one pool at the same time. A step that blocks keeps a worker busy.
type Pool struct {
	mu     sync.Mutex
	wake   sync.Cond
	ready  []task  // steps whose inputs are ready
	parted []*step // steps with parts that no worker has begun
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

// Close ends the goroutines and waits for them. No plan may be running.
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

// work runs steps and parts until the pool is closed. For a caller of run it returns when its dataflow is done.
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

// take removes the ready step that comes first in the program, so that sends begin early and temporaries die early. A caller of run takes only steps
// of its own plan: a step of another plan could block it.
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

// execute runs a step and posts the steps that become ready by it. The caller holds the lock; execute releases it while the step runs.
func (p *Pool) execute(lane int, t task) {
	d, s := t.flow, &t.flow.steps[t.index]
	if d.err == nil && d.ctx.Err() != nil && !d.declared {
		d.fail(t.index, stopped(d.ctx))
	}
	if d.err == nil {
		if err := p.runStep(lane, d, s); err != nil {
			d.fail(t.index, err)
		}
		d.declared = d.declared || s.isBarrier()
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

// spinTime is how long an idle worker looks for work before it sleeps. It is about the time to put a worker to sleep and wake it on a virtual
// machine, so waiting costs at most twice as much as the better of both. It covers the gaps between the steps of a plan, and between two runs.
const spinTime = 100 * time.Microsecond

// spinLooks is how often a worker looks between two readings of the clock.
const spinLooks = 256

// notify tells idle workers that there may be something for them. The caller holds the lock.
func (p *Pool) notify(all bool) {
	p.posted.Add(1)
	switch {
	case p.asleep == 0:
	case all:
		p.wake.Broadcast()
	default:
		p.wake.Signal()
	}
}

// idle waits until something may have been posted. It holds the lock when it is called and when it returns.
func (p *Pool) idle() {
	if seen := p.posted.Load(); p.spins {
		p.mu.Unlock()
		p.look(seen)
		p.mu.Lock()
		if p.posted.Load() != seen {
			return
		}
	}
	p.asleep++
	p.wake.Wait()
	p.asleep--
}

// look returns when something was posted after seen, or when spinTime has passed.
func (p *Pool) look(seen uint32) {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range spinLooks {
			if p.posted.Load() != seen {
				return
			}
		}
	}
}

// A shared is the state of a step whose parts run on several workers. The lock of the pool guards it.
type shared struct {
	ctx  context.Context
	plan *Plan
	next int // the first part that no worker has begun
	left int // parts that are not done
}

// runStep runs a step, with the help of idle workers if it has several parts. The caller holds the lock; runStep releases it while the step runs.
func (p *Pool) runStep(lane int, d *dataflow, s *step) error {
	if len(s.parts) <= 1 {
		p.mu.Unlock()
		err := s.guarded(d.ctx, d.plan, lane, 0)
		p.mu.Lock()
		return err
	}
	s.shared = shared{ctx: d.ctx, plan: d.plan, left: len(s.parts)}
	clear(s.errs)
	p.parted = append(p.parted, s)
	p.notify(len(s.parts) > 2)
	for s.shared.next < len(s.parts) {
		p.help(lane, s)
	}
	for s.shared.left > 0 {
		p.idle()
	}
	for _, err := range s.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// help runs the next part of a step. The caller holds the lock; help releases it while the part runs.
func (p *Pool) help(lane int, s *step) {
	part := s.shared.next
	s.shared.next++
	if s.shared.next == len(s.parts) {
		i := slices.Index(p.parted, s)
		p.parted = slices.Delete(p.parted, i, i+1)
	}
	p.mu.Unlock()
	err := s.guarded(s.shared.ctx, s.shared.plan, lane, part)
	p.mu.Lock()
	s.errs[part] = err
	if s.shared.left--; s.shared.left == 0 {
		p.notify(true)
	}
}

// guarded runs a part of a step, or its kernel. It makes a fault of every error and panic.
func (s *step) guarded(ctx context.Context, p *Plan, lane, part int) (err error) {
	at := s.pieces[0]
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(at.op, panicked(r))
		}
	}()
	var start time.Time
	if p.trace != nil {
		start = time.Now()
	}
	if s.isKernel() {
		err = at.kernel(ctx)
	} else {
		err = s.runPart(part, &at)
	}
	if p.trace != nil {
		p.trace.add(s, 1, lane, start, p.step.Round)
	}
	if err != nil {
		return failed(ctx, at, err)
	}
	return nil
}
