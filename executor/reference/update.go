package reference

import (
	"context"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// runUpdate merges what crosses and runs the update half once. It returns the fetched variables that the update computes and that do not
// persist.
func (e *Executor) runUpdate(ctx context.Context, shares []share, rows int64, fetch []string) (map[string]*tensor.Tensor, error) {
	if len(e.split.update.Global().Ops) == 0 {
		return nil, nil
	}
	feed := executor.Feed{}
	for _, name := range e.split.crosses {
		merged := shares[0].values[name].Clone()
		if err := merge.Gradients(merged, sharesOf(shares, name), e.split.merge); err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		feed[name] = merged
	}
	var names []string
	for _, name := range fetch {
		if v, ok := e.program.Global().Find(name); ok && e.split.updated[name] && !v.Persistable && !slices.Contains(e.split.crosses, name) {
			names = append(names, name)
		}
	}
	half, err := e.prepare(ctx, e.update, e.split.update, feed, names)
	if err != nil {
		return nil, err
	}
	out, err := half.RunStep(ctx, ops.Step{Round: e.round, Rows: rows}, feed)
	if err != nil {
		return nil, err
	}
	updated := map[string]*tensor.Tensor{}
	for i, name := range names {
		updated[name] = out[i].Clone()
	}
	return updated, nil
}
