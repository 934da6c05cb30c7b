package executor

import (
	"context"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Prepared is a program compiled for feeds of fixed shapes: the path for callers that run many steps and want none to
// allocate. It is the program as it was when it was prepared. It runs on the Local that made it, one step at a time.
type Prepared struct {
	local *Local
	plan  *plan.Plan
}

// Prepare compiles p for feeds like those of example, of which only dtypes and dims count. Like Run it gives persistable variables
// without a value those of p.Startup.
func (l *Local) Prepare(ctx context.Context, p *program.Program, example Feed, fetch ...string) (*Prepared, error) {
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	shapes, err := shapesOf(example)
	if err != nil {
		return nil, err
	}
	compiled, err := l.compile(ctx, p, shapes, fetch)
	if err != nil {
		return nil, err
	}
	return &Prepared{l, compiled}, nil
}

// Run runs one step. The tensors that it returns are the plan's own memory and are valid until the next Run. A feed that
// is left out keeps the tensor of the step before.
func (p *Prepared) Run(ctx context.Context, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.release()
	return p.plan.Fetched(), p.local.step(ctx, p.plan, feed, p.local.nextStep(p.plan, feed))
}

// RunStep is Run for a caller that knows which step of which trainer it is.
func (p *Prepared) RunStep(ctx context.Context, step ops.Step, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.release()
	return p.plan.Fetched(), p.local.step(ctx, p.plan, feed, step)
}
