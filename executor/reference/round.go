package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
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
