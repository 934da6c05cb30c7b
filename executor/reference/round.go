package reference

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// share is what one trainer computed from its rows, or what was merged of a group of trainers.
type share struct {
	trainer int // its position, or that of the first of the group
	rows    int64
	weight  int64                     // in a mean, where that is not rows
	void    bool                      // weight is a sum of weights, and 0: see ops.Step
	values  map[string]*tensor.Tensor // what crosses to the update, what is fetched, and the state
}

// A round is one step of one program.
type round struct {
	*Executor
	*split
	number uint64
	next   map[residualOf]*tensor.Tensor // residuals after the round
}

// runRound runs one round and returns the fetched variables. A round that fails leaves the state as it was.
func (e *Executor) runRound(ctx context.Context, s *split, number uint64, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	r := &round{e, s, number, map[residualOf]*tensor.Tensor{}}
	if len(fetch) == 0 {
		fetch = s.program.Targets()
	}
	whole := alone(r)
	if s.indivisible != nil && !whole {
		return nil, s.indivisible
	}
	weighed, err := ops.WeightOf(s.program, fetch)
	if err != nil && !whole {
		return nil, err
	}
	if err := executor.CheckSequences(s.program, feed); err != nil {
		return nil, err
	}
	rows, err := r.rowsOf(feed)
	if err != nil {
		return nil, err
	}
	wanted := r.wantedFromForward(fetch)
	e.forms.begin()
	shares, old, err := r.runRanks(ctx, feed, rows, wanted, weighed.Value)
	if err == nil && e.drops != nil && r.trains() {
		if rows = 0; len(shares) == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.Gotf("round %d without a row that counts", number), fault.Want("at least one"))
		}
		for _, s := range shares {
			rows += s.rows
		}
	}
	if err == nil && weighed.Value && r.trains() && !slices.ContainsFunc(shares, func(s share) bool { return s.weight != 0 }) {
		err = ops.NoMean(number)
	}
	if err == nil && r.finite && r.trains() && !s.overflows {
		err = checkFinite(shares, fetch)
	}
	if err == nil && r.devicesOf() > 1 {
		shares, err = r.mergeDevices(shares, old, fetch)
	}
	merged := shares
	if err == nil && e.groups != nil {
		merged, err = r.mergeGroups(shares, old, e.groups(number))
	}
	if err == nil {
		err = r.mergeState(merged, old)
	}
	var updated map[string]*tensor.Tensor
	if err == nil {
		if e.unpushed != nil {
			updated, err = e.unpushed.step(ctx, r, merged[0].values, rows, fetch)
		} else {
			updated, err = r.runUpdate(ctx, merged, rows, fetch)
		}
	}
	if err != nil {
		if restored := e.restore(old); restored != nil {
			err = errors.Join(err, restored)
		}
		return nil, err
	}
	r.keepResiduals()
	return r.fetched(fetch, updated, shares, rows)
}

// checkFinite refuses a round in which a rank has computed a fetched value that is not finite.
func checkFinite(shares []share, fetch []string) error {
	for _, s := range shares {
		if s.void {
			continue
		}
		for _, name := range fetch {
			t := s.values[name]
			if t == nil || t.DType() != tensor.Float32 {
				continue
			}
			for _, x := range t.Float32s() {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					return fault.E(fault.NotFinite, fault.Var(name), fault.Gotf("%v", x), fault.Want("a finite number"))
				}
			}
		}
	}
	return nil
}

// wantedFromForward lists what the forward half delivers: what crosses, and what is fetched and neither persistable nor updated.
func (r *round) wantedFromForward(fetch []string) []string {
	wanted := slices.Clone(r.crosses)
	for _, name := range fetch {
		v, ok := r.program.Global().Find(name)
		if ok && (v.Persistable || r.updated[name] && !r.recounted[name]) || slices.Contains(wanted, name) {
			continue
		}
		wanted = append(wanted, name)
	}
	return wanted
}

// runRanks runs the forward half for every rank that has rows, each from the same state, and returns that state as it was.
// byValue says that the weight of a rank is a sum of weights.
func (r *round) runRanks(ctx context.Context, feed executor.Feed, rows int64, wanted []string, byValue bool) (shares []share,
	old map[string]*tensor.Tensor, err error) {
	before := r.shared
	r.shared = r.trainers(r.number)
	if r.trains() {
		r.beginResiduals(before)
	}
	n := int64(r.shared)
	if n < 1 {
		return nil, nil, fault.E(fault.InvalidArgument, fault.Gotf("%d trainers in round %d", n, r.number), fault.Want("at least 1"))
	}
	var masters map[string]*tensor.Tensor
	defer func() {
		if restored := r.restore(masters); restored != nil {
			err = errors.Join(err, restored)
		}
	}()
	d := r.devicesOf()
	n *= d
	var dropped []int
	if r.drops != nil && r.trains() {
		dropped = r.drops(r.number)
	}
	var ranks []rankPart
	for t := range n {
		from, to := rows*t/n, rows*(t+1)/n
		if from == to || slices.Contains(dropped, int(t/d)) {
			continue
		}
		part, err := r.rowsFrom(feed, from, to)
		if err != nil {
			return nil, nil, err
		}
		ranks = append(ranks, rankPart{int(t / d), from, to, part})
	}
	begin := func() (err error) {
		if old != nil {
			return r.restore(old)
		}
		old = r.snapshot()
		masters, err = r.roundParameters()
		return err
	}
	if err := shareTotals(ctx, r, ranks, begin); err != nil {
		return nil, old, err
	}
	for _, rank := range ranks {
		part, from, to := rank.feed, rank.from, rank.to
		half, err := r.prepared.of(ctx, r.local, r.forward, part, wanted)
		if err != nil {
			return nil, old, err
		}
		if err := begin(); err != nil {
			return nil, old, err
		}
		out, err := half.RunStep(ctx, ops.Step{Round: r.number, RowOffset: from, Rows: to - from}, part)
		if err != nil {
			return nil, old, err
		}
		weight, err := half.Weight()
		if err != nil {
			return nil, old, err
		}
		s := share{trainer: rank.trainer, rows: to - from, weight: weight, void: byValue && weight == 0 && to-from < rows, values: r.snapshot()}
		for i, name := range wanted {
			if s.values[name], err = r.forms.copyOf(name, out[i]); err != nil {
				return nil, old, err
			}
		}
		shares = append(shares, s)
	}
	return shares, old, nil
}

// roundParameters gives the parameters the values that trainers have, and returns those of the state.
func (r *round) roundParameters() (masters map[string]*tensor.Tensor, err error) {
	masters = map[string]*tensor.Tensor{}
	for _, name := range r.parameters {
		master, ok := r.Scope().Find(name)
		pulled := r.unpushed.has(name)
		if !ok || r.params == compress.None && pulled == nil {
			continue
		}
		masters[name] = master.Clone()
		rounded := cmp.Or(pulled, master).Clone()
		if err := compress.Round(rounded, r.params); err != nil {
			return masters, err
		}
		if err := r.Scope().Set(name, rounded); err != nil {
			return masters, err
		}
	}
	return masters, nil
}

// fetched gathers the fetched variables from where they are.
func (r *round) fetched(fetch []string, updated map[string]*tensor.Tensor, shares []share, rows int64) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(fetch))
	for i, name := range fetch {
		if t := updated[name]; t != nil {
			out[i] = t
			continue
		}
		declared, _ := r.program.Global().Find(name)
		if declared.Persistable {
			t, ok := r.Scope().Find(name)
			if !ok {
				return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value"), fault.Want("a variable to fetch"))
			}
			out[i] = t.Clone()
			if slices.Contains(r.parameters, name) {
				if err := compress.Round(out[i], r.params); err != nil {
					return nil, err
				}
			}
			continue
		}
		parts := make([]executor.Part, len(shares))
		for k, s := range shares {
			parts[k] = executor.Part{Value: s.values[name], Rows: s.rows, Weight: s.weight}
		}
		var err error
		if out[i], err = executor.MergeFetch(declared, r.fetches.Of(name), r.fetches.Along(name), rows, parts); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// alone reports whether one trainer without devices has the whole batch.
func alone(r *round) bool { return r.trainers(r.number) == 1 && r.devicesOf() == 1 }

// rowsOf returns the rows of the batch: the extent of axis 0 of every fed variable that leaves it open. Of sequences it is their number in the outermost
// level. Where nobody divides the batch, feeds may have different ones, and it is the largest.
func (r *round) rowsOf(feed executor.Feed) (int64, error) {
	rows := int64(-1)
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		if !r.byRows(name) || feed[name] == nil || len(feed[name].Dims()) == 0 {
			continue
		}
		n := tensor.Records(feed[name])
		if alone(r) {
			n = max(n, rows)
		}
		if rows >= 0 && n != rows && !alone(r) {
			return 0, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("%d rows", n), fault.Wantf("%d rows, as the other feeds have", rows))
		}
		rows = n
	}
	if rows < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one"))
	}
	return rows, nil
}

func (r *round) byRows(name string) bool {
	v, ok := r.program.Global().Find(name)
	return ok && len(v.Dims) > 0 && v.Dims[0] == program.Unknown
}

// rowsFrom returns views of rows [from, to) of the feeds. Feeds without open rows are the same for every trainer.
func (r *round) rowsFrom(feed executor.Feed, from, to int64) (executor.Feed, error) {
	part := executor.Feed{}
	for name, t := range feed {
		part[name] = t
		if t == nil || alone(r) || !r.byRows(name) {
			continue
		}
		rows, err := tensor.PartOf(t, from, to)
		if err != nil {
			return nil, err
		}
		part[name] = rows
	}
	return part, nil
}

// snapshot copies the state that the forward half writes.
func (r *round) snapshot() map[string]*tensor.Tensor {
	values := map[string]*tensor.Tensor{}
	for _, s := range r.state {
		if t, ok := r.Scope().Find(s.name); ok {
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

// keep copies what a program writes that does not train, and returns what undoes it.
func keep(ctx context.Context, e *Executor, s *split) (restore func(), err error) {
	if err := e.local.Startup(ctx, s.program); err != nil {
		return nil, err
	}
	old := written(e, s)
	return func() {
		if err := e.restore(old); err != nil {
			panic(err) // dims of variables in a scope never change
		}
	}, nil
}

// written copies what a program writes that does not train.
func written(e *Executor, s *split) map[string]*tensor.Tensor {
	values := (&round{Executor: e, split: s}).snapshot()
	for name := range s.updated {
		if t, ok := e.Scope().Find(name); ok {
			values[name] = t.Clone()
		}
	}
	return values
}

// mergeState makes one state of what the ranks computed. State that its op gives no rule for is that of the first rank.
func (r *round) mergeState(shares []share, old map[string]*tensor.Tensor) error {
	for _, s := range r.state {
		merged, err := s.of(shares, old)
		if err != nil {
			return err
		}
		if err := r.Scope().Set(s.name, merged); err != nil {
			return err
		}
	}
	return nil
}

// of merges what the ranks computed of the state. The result may be a value of one of them.
func (s state) of(shares []share, old map[string]*tensor.Tensor) (*tensor.Tensor, error) {
	first := shares[0].values[s.name]
	if s.merge == ops.MergeNone || len(shares) == 1 {
		return first, nil
	}
	merged := first.Clone()
	if err := merge.State(merged, old[s.name], sharesOf(shares, s.name), s.merge); err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(s.name), fault.Cause(err))
	}
	return merged, nil
}

// gradient merges what the ranks computed of a variable that crosses to the update.
func (r *round) gradient(name string, shares []share) (*tensor.Tensor, error) {
	merged, err := r.forms.copyOf(name, shares[0].values[name])
	if err != nil {
		return nil, err
	}
	if rows := r.selects(name, merged); rows != nil {
		return merged, r.selected(merged, name, rows, shares)
	}
	sent := sharesOf(shares, name)
	for i := range sent {
		var err error
		if sent[i].Value, err = compress.Narrowed(sent[i].Value, r.halves()); err != nil {
			return nil, err
		}
	}
	if err := merge.Gradients(merged, sent, r.merge); err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	return merged, nil
}

// mergeGroups merges the shares of each group to one, which has the rows of all of them. Trainers without rows have no share, and so have groups of
// them.
func (r *round) mergeGroups(shares []share, old map[string]*tensor.Tensor, groups [][]int) (out []share, err error) {
	first := map[int]int{} // of its group, by position
	for _, g := range groups {
		for _, trainer := range g {
			first[trainer] = g[0]
		}
	}
	leader := func(trainer int) int {
		if at, ok := first[trainer]; ok {
			return at
		}
		return trainer
	}
	byLeader := map[int][]share{}
	for _, s := range shares {
		byLeader[leader(s.trainer)] = append(byLeader[leader(s.trainer)], s)
	}
	for _, at := range slices.Sorted(maps.Keys(byLeader)) {
		g := byLeader[at]
		one := share{trainer: at, values: map[string]*tensor.Tensor{}}
		for _, s := range g {
			one.rows, one.weight = one.rows+s.rows, one.weight+s.weight
		}
		for _, name := range r.crosses {
			if one.values[name], err = r.gradient(name, g); err != nil {
				return nil, err
			}
		}
		for _, s := range r.state {
			if one.values[s.name], err = s.of(g, old); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, nil
}

func sharesOf(shares []share, name string) []merge.Share {
	list := make([]merge.Share, len(shares))
	for i, s := range shares {
		list[i] = merge.Share{Value: s.values[name], Rows: s.rows, Weight: s.weight}
	}
	return list
}

// runUpdate merges what crosses and runs the update half once. It returns the fetched variables that the update computes and that do not
// persist.
func (r *round) runUpdate(ctx context.Context, shares []share, rows int64, fetch []string) (map[string]*tensor.Tensor, error) {
	if len(r.update.Global().Ops) == 0 {
		return nil, nil
	}
	feed := executor.Feed{}
	var err error
	for _, name := range r.crosses {
		if feed[name], err = r.gradient(name, shares); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, name := range fetch {
		if v, ok := r.program.Global().Find(name); ok && r.updated[name] && !v.Persistable && !slices.Contains(r.crosses, name) {
			names = append(names, name)
		}
	}
	half, err := r.prepared.of(ctx, r.local, r.update, feed, names)
	if err != nil {
		return nil, err
	}
	out, err := half.RunStep(ctx, ops.Step{Round: r.number, Rows: rows}, feed)
	if err != nil {
		return nil, err
	}
	updated := map[string]*tensor.Tensor{}
	for i, name := range names {
		updated[name] = out[i].Clone()
	}
	return updated, nil
}
