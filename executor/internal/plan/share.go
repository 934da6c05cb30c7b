package plan

import (
	"context"
	"slices"
	"time"

	"github.com/edl-go/edl/ops"
)

// shared is the state of a step whose parts are shared among workers, guarded by the pool's lock.
type shared struct {
	ctx  context.Context
	plan *Plan
	next int // the first part that nobody has begun
	left int // parts that are not done
}

// runStep runs a step, with the help of whoever is idle when it has several parts. The caller holds the lock, which is free
// meanwhile.
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

// help runs the next part of a step. The caller holds the lock, which is free meanwhile.
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

// guarded runs a part of a step, or its kernel, and makes a fault of whatever goes wrong.
func (s *step) guarded(ctx context.Context, p *Plan, lane, part int) (err error) {
	at := s.pieces[0]
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(at.op, panicked(r))
		}
	}()
	if ctx.Err() != nil {
		return stopped(ctx)
	}
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
