package plan

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// Run runs the plan once, on pool when there is one and the plan was compiled for it. When ctx ends it stops before the next
// step. An error names op, variable and site; what the scope holds is then as far as the steps came.
//
// A plan that checks for finite numbers does so between the gradients and the update: when the loss or a fetched variable that is
// known by then is not finite, the update does not happen, so parameters stay as they were before the step.
func (p *Plan) Run(ctx context.Context, pool *Pool) error {
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
	for _, s := range p.steps[from:] {
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
	for i := from; i < to; i++ {
		if err := p.steps[i].run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run runs the kernel of a step.
func (s *step) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(s.op, panicked(r))
		}
	}()
	if err := ctx.Err(); err != nil {
		return stopped(ctx)
	}
	if err := s.kernel(ctx); err != nil {
		return s.failed(ctx, err)
	}
	return nil
}

// failed completes the error of a kernel. A kernel that only gave up because ctx ended reports that.
func (s *step) failed(ctx context.Context, err error) error {
	if kind := fault.KindOf(err); ctx.Err() != nil && kind == fault.Internal {
		return stopped(ctx)
	}
	return ops.At(s.op, err)
}

// stopped is the fault of a context that ended.
func stopped(ctx context.Context) error {
	kind := fault.Canceled
	if ctx.Err() == context.DeadlineExceeded {
		kind = fault.DeadlineExceeded
	}
	return &fault.Fault{Kind: kind, Err: context.Cause(ctx)}
}

// RunFromBarrier runs the plan from its first send_barrier on, without checks. It is how a trainer that has no rows in a round stays in step with
// the others: it contributes nothing, says so, and receives what the round made.
func (p *Plan) RunFromBarrier(ctx context.Context) error {
	for i := range p.steps {
		if p.steps[i].op.Type != "send_barrier" {
			continue
		}
		if err := p.segment(ctx, nil, 1, i, len(p.steps)); err != nil {
			return err
		}
		p.settle(i)
		return nil
	}
	return &fault.Fault{Kind: fault.InvalidArgument, Got: "a batch without rows", Want: "at least one row in a program without send_barrier"}
}
