package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A planner compiles programs for the state of an executor, and keeps the plans that were used last. The state lock guards it.
type planner struct {
	*settings
	startup  *startup
	cache    planCache
	versions versions
	last     analysed // the program that was verified last: batches of sequences compile it again and again
}

// analysed is a program that has no mistakes, with what follows from it alone.
type analysed struct {
	version
	weights map[string]ops.Weight // for each list of fetches; zero where one trainer needs none: who divides a batch among several has checked it
}

// planFor returns the plan of the global block for feeds of the shapes of feed. It compiles the plan if none is kept. keep is what plan.Request has.
func (k *planner) planFor(ctx context.Context, p *program.Program, feed Feed, fetch []string, keep ...string) (*plan.Plan, error) {
	shapes, err := shapesOf(p, feed)
	if err != nil {
		return nil, err
	}
	key := planKey{k.versions.of(p), requestKey(shapes, fetch, keep), requestKey(nil, fetch, keep)}
	if compiled := k.cache.get(key); compiled != nil {
		return compiled, nil
	}
	compiled := k.cache.take(key, sizesOf(p, mostSizes))
	if compiled == nil || !plan.Resize(compiled, shapes) {
		if compiled, err = k.compile(ctx, key.of, shapes, fetch, keep...); err != nil {
			return nil, err
		}
	}
	k.cache.put(key, compiled)
	return compiled, nil
}

// PlanKey returns what tells feeds apart for which a program needs different plans.
func PlanKey(p *program.Program, feed Feed) (string, error) {
	shapes, err := shapesOf(p, feed)
	return requestKey(shapes, nil, nil), err
}

// requestKey writes feeds and fetches as one string.
func requestKey(shapes map[string]ops.Meta, fetch, keep []string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		m := shapes[name]
		fmt.Fprintf(&b, "%q%v%v%v%v", name, m.DType, m.Dims, m.Sequences, m.LoD)
		if m.Value != nil {
			fmt.Fprintf(&b, "=%v", ops.Integers(m.Value))
		}
	}
	for _, name := range fetch {
		fmt.Fprintf(&b, ">%q", name)
	}
	for _, name := range keep {
		fmt.Fprintf(&b, ">>%q", name)
	}
	return b.String()
}

// compile verifies a program, gives its persistable variables values, and compiles its global block.
func (k *planner) compile(ctx context.Context, of version, shapes map[string]ops.Meta, fetch []string, keep ...string) (*plan.Plan, error) {
	p := of.program
	if k.last.version != of {
		if err := ops.Verify(p, k.stage); err != nil {
			return nil, err
		}
		k.last = analysed{of, map[string]ops.Weight{}}
	}
	if err := k.startup.complete(ctx, p); err != nil {
		return nil, err
	}
	if err := k.startup.check(p); err != nil {
		return nil, err
	}
	if len(fetch) == 0 {
		fetch = p.Targets()
	}
	weight := k.last.weigh(fetch)
	request := plan.Request{Block: p.Global(), Feeds: shapes, Fetch: fetch, Keep: keep, Scope: k.scope, Env: k.env,
		Workers: k.workers, Grain: k.grain, Weight: weight, CheckFinite: k.checkFinite, Without: k.without, Store: k.store, Memory: k.memory()}
	if len(p.Blocks) > 1 {
		request.Env.Blocks = newBlocks(p, k.scope, request.Env, k.grain, k.profile)
	}
	compiled, err := plan.Compile(request)
	if err != nil {
		return nil, adviseRows(err, p, shapes)
	}
	if k.profile != nil {
		compiled.SetTrace(&k.profile.trace)
	}
	k.log.DebugContext(ctx, "compiled a plan", "ops", len(p.Global().Ops), "feeds", compiled.Feeds(), "fetch", fetch, "arena_bytes",
		compiled.Memory().Arena)
	return compiled, nil
}

// weigh is ops.WeightOf.
func (a *analysed) weigh(fetch []string) ops.Weight {
	key := requestKey(nil, fetch, nil)
	weight, found := a.weights[key]
	if !found {
		if len(a.weights) == cachedPlans {
			clear(a.weights)
		}
		weight, _ = ops.WeightOf(a.program, fetch)
		a.weights[key] = weight
	}
	return weight
}

// A Fusion names one way in which a plan does the work of a program with fewer passes over memory and fewer dispatches than one for
// each op. No fusion changes a bit of any result.
type Fusion = plan.Fusion

// The fusions of a plan.
const (
	FuseUnread    = plan.FuseUnread    // leaves out what nobody reads, such as metrics that are not fetched
	FuseViews     = plan.FuseViews     // lets copies, such as those of reshape2 and of splits by rows, share the elements of what they copy
	FuseEpilogues = plan.FuseEpilogues // lets products add a bias and apply an activation to what they have just computed
	FuseFanIn     = plan.FuseFanIn     // lets products add their result to the gradients that it is summed with
	FuseRows      = plan.FuseRows      // runs ops that hand rows on to each other, such as a softmax and its loss, range by range
	FuseUpdates   = plan.FuseUpdates   // runs the updates of small parameters in one step
)

// Fusions returns all of them.
func Fusions() []Fusion { return slices.Clone(plan.Fusions) }

// WithoutFusion leaves fusions out, to compare or to look for a mistake. Without any name it leaves out all.
func WithoutFusion(names ...Fusion) Option {
	if len(names) == 0 {
		names = Fusions()
	}
	return func(l *Local) { l.without = append(l.without, names...) }
}
