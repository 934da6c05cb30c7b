package executor

import (
	"context"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Startup gives the persistable variables of p that have no value yet those of p.Startup. Run and Train do it by themselves; a caller that
// must know when it happens, such as a trainer whose startup program receives parameters, calls it first.
func (l *Local) Startup(ctx context.Context, p *program.Program) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	if err := ops.Verify(p, l.stage); err != nil {
		return err
	}
	return l.startup(ctx, p)
}

// RunStep is Run for a caller that knows which step of which trainer it is. A step without rows, which a trainer meets when there
// are more trainers than rows in a batch, runs p from its send_barrier on and fetches nothing; its feed only says what shapes the rows
// would have.
func (l *Local) RunStep(ctx context.Context, p *program.Program, step ops.Step, feed Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	if step.Rows == 0 {
		var err error
		if feed, err = oneRow(feed); err != nil {
			return nil, err
		}
	}
	compiled, err := l.planFor(ctx, p, feed, fetch)
	if err != nil {
		return nil, err
	}
	if step.Rows == 0 {
		return nil, l.emptyStep(ctx, compiled, step)
	}
	if err := l.step(ctx, compiled, feed, step); err != nil {
		return nil, err
	}
	return cloneAll(compiled.Fetched()), nil
}

// emptyStep runs a step without rows.
func (l *Local) emptyStep(ctx context.Context, compiled *plan.Plan, s ops.Step) error {
	l.now = s
	compiled.SetStep(s)
	return compiled.RunFromBarrier(ctx)
}

// oneRow gives every feed that has no rows one, so that a plan can be made.
func oneRow(feed Feed) (Feed, error) {
	padded := Feed{}
	for name, t := range feed {
		padded[name] = t
		if dims := t.Dims(); len(dims) > 0 && dims[0] == 0 {
			row, err := tensor.New(t.DType(), append([]int64{1}, dims[1:]...)...)
			if err != nil {
				return nil, err
			}
			padded[name] = row
		}
	}
	return padded, nil
}

func cloneAll(ts []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		out[i] = t.Clone()
	}
	return out
}
