package plan

import (
	"context"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// Run runs the plan once: on the caller's goroutine, joined by those of pool when there is one and the plan gains from it. When ctx ends
// it stops before the next step. An error names op, variable and line; what the scope holds is then as far as the steps came.
//
// A plan that checks for finite numbers does so between the gradients and the update: when the loss or a fetched variable that is
// known by then is not finite, the update does not happen, so parameters stay as they were before the step.
func (p *Plan) Run(ctx context.Context, pool *Pool) error {
	if pool == nil || p.trial == nil {
		return p.once(ctx, pool)
	}
	if p.trial.runsAlone() {
		pool = nil
	}
	start := time.Now()
	err := p.once(ctx, pool)
	p.trial.add(time.Since(start))
	return err
}

func (p *Plan) once(ctx context.Context, pool *Pool) error {
	if err := p.segment(ctx, pool, 0, 0, p.update); err != nil {
		return err
	}
	if err := p.checkBeforeUpdate(ctx); err != nil {
		return err
	}
	if err := p.segment(ctx, pool, 1, p.update, len(p.steps)); err != nil {
		return err
	}
	if !p.settled {
		p.settled = true
		p.settle(0)
	}
	return p.checkAfterUpdate()
}

// settle tells the scope that the variables that steps from one on write have values.
func (p *Plan) settle(from int) {
	for _, s := range p.pieces[p.firstPiece(from):] {
		for _, v := range s.writes {
			if v.place == scoped {
				p.scope.MarkReady(v.name)
			}
		}
	}
}

func (p *Plan) segment(ctx context.Context, pool *Pool, index, from, to int) error {
	if pool != nil && p.dataflow != nil {
		return pool.run(ctx, p.dataflow[index])
	}
	return p.inOrder(ctx, from, to)
}

// inOrder runs steps one after the other.
func (p *Plan) inOrder(ctx context.Context, from, to int) (err error) {
	var at *piece
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(at.op, panicked(r))
		}
	}()
	for i := from; i < to; i++ {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		s := &p.steps[i]
		if p.trace != nil {
			err = s.traced(ctx, p, &at)
		} else {
			err = s.run(ctx, &at)
		}
		if err != nil {
			return failed(ctx, at, err)
		}
	}
	return nil
}

// traced is run with a record of how long it took.
func (s *step) traced(ctx context.Context, p *Plan, at **piece) error {
	start := time.Now()
	defer func() { p.trace.add(s, max(1, len(s.parts)), 0, start, p.step.Round) }()
	return s.run(ctx, at)
}

// failed completes the error of a piece. A kernel that only gave up because ctx ended reports that.
func failed(ctx context.Context, p *piece, err error) error {
	if kind := fault.KindOf(err); ctx.Err() != nil && kind == fault.Internal {
		return stopped(ctx)
	}
	return ops.At(p.op, err)
}

// stopped is the fault of a context that ended.
func stopped(ctx context.Context) error {
	kind := fault.Canceled
	if ctx.Err() == context.DeadlineExceeded {
		kind = fault.DeadlineExceeded
	}
	return fault.E(kind, fault.Cause(context.Cause(ctx)))
}

// RunFromBarrier runs the plan from its first send_barrier on, without checks. It is how a trainer that has no rows in a round stays in step with
// the others: it contributes nothing, says so, and receives what the round made.
func (p *Plan) RunFromBarrier(ctx context.Context) error {
	for i := range p.steps {
		if p.steps[i].pieces[0].op.Type != "send_barrier" {
			continue
		}
		if err := p.segment(ctx, nil, 1, i, len(p.steps)); err != nil {
			return err
		}
		p.settle(i)
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one row in a program without send_barrier"))
}
