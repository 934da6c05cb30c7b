package executor

import (
	"context"
	"slices"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// maxShapes is how many batch shapes keep a plan: the full batch, the last one of a pass, and what splitting over trainers makes of
// both.
const maxShapes = 4

// A shapedPlan is a plan with the rows that its batches have.
type shapedPlan struct {
	rows int64
	plan *plan.Plan
}

// planFor returns the plan for the shapes of a batch. For a batch without rows any plan serves.
func (t *training) planFor(ctx context.Context, batch *Batch) (*plan.Plan, error) {
	rows := batch.Step.Rows
	for i, have := range t.plans {
		if have.rows == rows || rows == 0 {
			return t.plans[i].plan, nil
		}
	}
	if rows > 0 {
		if err := batch.check(t.variables); err != nil {
			return nil, err
		}
	}
	shapes, err := t.shapes(batch)
	if err != nil {
		return nil, err
	}
	compiled, err := t.local.compile(ctx, t.program, shapes, t.run.Fetch)
	if err != nil {
		return nil, err
	}
	if len(t.plans) == maxShapes {
		t.plans = slices.Delete(t.plans, 0, 1)
	}
	t.plans = append(t.plans, shapedPlan{max(rows, 1), compiled})
	return compiled, nil
}

// shapes describes the variables that are read: as they are in batch, or with one row when it has none.
func (t *training) shapes(batch *Batch) (map[string]ops.Meta, error) {
	feed := Feed{}
	for i, name := range t.variables {
		if batch.Step.Rows > 0 {
			feed[name] = batch.Tensors[i]
			continue
		}
		declared, ok := t.program.Global().Find(name)
		if !ok || len(declared.Dims) == 0 {
			return nil, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("no declaration with rows"),
				fault.Want("a declared batch variable"))
		}
		dims := slices.Clone(declared.Dims)
		dims[0] = 1
		row, err := tensor.New(declared.DType, dims...)
		if err != nil {
			return nil, err
		}
		feed[name] = row
	}
	return shapesOf(feed)
}
