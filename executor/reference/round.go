package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// share is what one trainer computed from its rows.
type share struct {
	rows   int64
	values map[string]*tensor.Tensor // what crosses to the update, what is fetched, and the state
}

// runRound runs one round and returns the fetched variables.
func (e *Executor) runRound(ctx context.Context, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if len(fetch) == 0 {
		fetch = e.program.Targets()
	}
	rows, err := e.rowsOf(feed)
	if err != nil {
		return nil, err
	}
	wanted := e.wantedFromForward(fetch)
	shares, old, err := e.runRanks(ctx, feed, rows, wanted)
	if err != nil {
		return nil, err
	}
	if err := e.mergeState(shares, old); err != nil {
		return nil, err
	}
	updated, err := e.runUpdate(ctx, shares, rows, fetch)
	if err != nil {
		return nil, err
	}
	e.round++
	return e.fetched(fetch, updated, shares)
}

// wantedFromForward lists what the forward half delivers: what crosses, and what is fetched and neither persistable nor updated.
func (e *Executor) wantedFromForward(fetch []string) []string {
	wanted := slices.Clone(e.split.crosses)
	for _, name := range fetch {
		v, ok := e.program.Global().Find(name)
		if ok && (v.Persistable || e.split.updated[name]) || slices.Contains(wanted, name) {
			continue
		}
		wanted = append(wanted, name)
	}
	return wanted
}

// runRanks runs the forward half for every rank that has rows, each from the same state, and returns that state as it was.
func (e *Executor) runRanks(ctx context.Context, feed executor.Feed, rows int64, wanted []string) (shares []share,
	old map[string]*tensor.Tensor, err error) {
	e.shared = e.trainers(e.round)
	n := int64(e.shared)
	if n < 1 {
		return nil, nil, fault.E(fault.InvalidArgument, fault.Gotf("%d trainers in round %d", n, e.round), fault.Want("at least 1"))
	}
	for t := range n {
		from, to := rows*t/n, rows*(t+1)/n
		if from == to {
			continue
		}
		part, err := e.rowsFrom(feed, from, to)
		if err != nil {
			return nil, nil, err
		}
		half, err := e.prepare(ctx, e.forward, e.split.forward, part, wanted)
		if err != nil {
			return nil, nil, err
		}
		if old == nil {
			old = e.snapshot()
		} else if err := e.restore(old); err != nil {
			return nil, nil, err
		}
		out, err := half.RunStep(ctx, ops.Step{Round: e.round, RowOffset: from, Rows: to - from}, part)
		if err != nil {
			return nil, nil, err
		}
		s := share{rows: to - from, values: e.snapshot()}
		for i, name := range wanted {
			s.values[name] = out[i].Clone()
		}
		shares = append(shares, s)
	}
	return shares, old, nil
}

// prepare compiles a half for feeds of these shapes, once.
func (e *Executor) prepare(ctx context.Context, cache map[request]*executor.Prepared, half *program.Program, feed executor.Feed,
	fetch []string) (*executor.Prepared, error) {
	var shapes strings.Builder
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		fmt.Fprintf(&shapes, "%q%v", name, feed[name])
	}
	key := request{shapes.String(), fmt.Sprintf("%q", fetch)}
	if p := cache[key]; p != nil {
		return p, nil
	}
	p, err := e.local.Prepare(ctx, half, feed, fetch...)
	if err == nil {
		cache[key] = p
	}
	return p, err
}

// fetched gathers the fetched variables from where they are.
func (e *Executor) fetched(fetch []string, updated map[string]*tensor.Tensor, shares []share) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(fetch))
	for i, name := range fetch {
		if t := updated[name]; t != nil {
			out[i] = t
			continue
		}
		declared, _ := e.program.Global().Find(name)
		if declared.Persistable {
			t, ok := e.Scope().Find(name)
			if !ok {
				return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value"), fault.Want("a variable to fetch"))
			}
			out[i] = t.Clone()
			continue
		}
		parts := make([]executor.Part, len(shares))
		for k, s := range shares {
			parts[k] = executor.Part{Value: s.values[name], Rows: s.rows}
		}
		var err error
		if out[i], err = executor.MergeFetch(declared, e.split.merge, parts); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rowsOf returns the rows of the batch: the extent of axis 0 of every fed variable that leaves it open.
func (e *Executor) rowsOf(feed executor.Feed) (int64, error) {
	rows := int64(-1)
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		if feed[name] != nil && len(feed[name].LoD()) > 0 {
			return 0, fault.E(fault.Unsupported, fault.Var(name), fault.Got("a feed whose rows form sequences"),
				fault.Want("rows that can be divided among trainers"))
		}
		if !e.byRows(name) || feed[name] == nil || len(feed[name].Dims()) == 0 {
			continue
		}
		n := feed[name].Dims()[0]
		if rows >= 0 && n != rows {
			return 0, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("%d rows", n), fault.Wantf("%d rows, as the other feeds have", rows))
		}
		rows = n
	}
	if rows < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one"))
	}
	return rows, nil
}

func (e *Executor) byRows(name string) bool {
	v, ok := e.program.Global().Find(name)
	return ok && len(v.Dims) > 0 && v.Dims[0] == program.Unknown
}

// rowsFrom returns views of rows [from, to) of the feeds. Feeds without open rows are the same for every trainer.
func (e *Executor) rowsFrom(feed executor.Feed, from, to int64) (executor.Feed, error) {
	part := executor.Feed{}
	for name, t := range feed {
		part[name] = t
		if t == nil || !e.byRows(name) {
			continue
		}
		rows, err := t.Rows(from, to)
		if err != nil {
			return nil, err
		}
		part[name] = rows
	}
	return part, nil
}

// snapshot copies the state that the forward half writes.
func (e *Executor) snapshot() map[string]*tensor.Tensor {
	values := map[string]*tensor.Tensor{}
	for _, s := range e.split.state {
		if t, ok := e.Scope().Find(s.name); ok {
			values[s.name] = t.Clone()
		}
	}
	return values
}

func (e *Executor) restore(old map[string]*tensor.Tensor) error {
	for name, t := range old {
		if err := e.Scope().Set(name, t); err != nil {
			return err
		}
	}
	return nil
}

// mergeState makes one state of what the ranks computed. State that its op gives no rule for is that of the first rank.
func (e *Executor) mergeState(shares []share, old map[string]*tensor.Tensor) error {
	for _, s := range e.split.state {
		merged := shares[0].values[s.name]
		if s.merge != ops.MergeNone && len(shares) > 1 {
			merged = merged.Clone()
			if err := merge.State(merged, old[s.name], sharesOf(shares, s.name), s.merge); err != nil {
				return fault.E(fault.KindOf(err), fault.Var(s.name), fault.Cause(err))
			}
		}
		if err := e.Scope().Set(s.name, merged); err != nil {
			return err
		}
	}
	return nil
}

func sharesOf(shares []share, name string) []merge.Share {
	list := make([]merge.Share, len(shares))
	for i, s := range shares {
		list[i] = merge.Share{Value: s.values[name], Rows: s.rows}
	}
	return list
}

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
