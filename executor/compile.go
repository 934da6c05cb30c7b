package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// planFor returns the plan of the global block for feeds of the shapes that feed has, compiling it when it is the first of its kind.
func (l *Local) planFor(ctx context.Context, p *program.Program, feed Feed, fetch []string) (*plan.Plan, error) {
	shapes, err := shapesOf(feed)
	if err != nil {
		return nil, err
	}
	key := planKey{p, fingerprint(p), requestKey(shapes, fetch)}
	if compiled := l.cache.get(key); compiled != nil {
		return compiled, nil
	}
	compiled, err := l.compile(ctx, p, shapes, fetch)
	if err == nil {
		l.cache.put(key, compiled)
	}
	return compiled, err
}

// requestKey writes feeds and fetches as one string.
func requestKey(shapes map[string]ops.Meta, fetch []string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		fmt.Fprintf(&b, "%q%v%v%v", name, shapes[name].DType, shapes[name].Dims, shapes[name].Sequences)
	}
	for _, name := range fetch {
		fmt.Fprintf(&b, ">%q", name)
	}
	return b.String()
}

// compile verifies a program, gives its persistable variables values, and compiles its global block.
func (l *Local) compile(ctx context.Context, p *program.Program, shapes map[string]ops.Meta, fetch []string) (*plan.Plan, error) {
	if err := ops.Verify(p, l.stage); err != nil {
		return nil, err
	}
	if err := l.startup(ctx, p); err != nil {
		return nil, err
	}
	if len(fetch) == 0 {
		fetch = p.Targets()
	}
	request := plan.Request{Block: p.Global(), Feeds: shapes, Fetch: fetch, Scope: l.scope, Env: l.env,
		Workers: l.workers, Grain: l.grain, CheckFinite: l.checkFinite, Without: l.without}
	if len(p.Blocks) > 1 {
		request.Env.Blocks = newBlocks(p, l.scope, request.Env)
	}
	compiled, err := plan.Compile(request)
	if err != nil {
		return nil, explainFeeds(p, err)
	}
	if l.profile != nil {
		compiled.SetTrace(&l.profile.trace)
	}
	l.log.DebugContext(ctx, "compiled a plan", "ops", len(p.Global().Ops), "feeds", compiled.Feeds(), "fetch", fetch, "arena_bytes",
		compiled.Memory().Arena)
	return compiled, nil
}

// explainFeeds adds to a fault of a missing value which feeds the program names itself.
func explainFeeds(p *program.Program, err error) error {
	f, ok := err.(*fault.Fault)
	names := p.Feeds()
	if !ok || f.Kind != fault.NotFound || len(names) == 0 {
		return err
	}
	c := *f
	c.Hint = "the program is fed by " + strings.Join(names, ", ")
	return &c
}
