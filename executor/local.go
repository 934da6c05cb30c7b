package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var _ Executor = (*Local)(nil)

// Local runs programs in this process. It runs one step at a time: calls from several goroutines wait for each other. For
// inference on several goroutines make one Local for each, over one Scope.
type Local struct {
	scope       *Scope
	workers     int
	env         ops.Env
	stage       program.Stage
	checkFinite bool
	without     []Fusion
	grain       time.Duration
	profile     *Profile
	log         *slog.Logger

	busy   chan struct{} // holds one value while a step runs
	closed chan struct{}
	pool   *plan.Pool // nil for one worker
	cache  planCache
	round  uint64 // steps that trained so far
	now    ops.Step
}

// New returns an executor for this machine. Close ends its goroutines.
func New(options ...Option) *Local {
	l := &Local{scope: NewScope(), workers: 1, grain: defaultGrain, checkFinite: true, log: slog.New(slog.DiscardHandler),
		busy: make(chan struct{}, 1), closed: make(chan struct{})}
	for _, option := range options {
		option(l)
	}
	if l.workers > 1 {
		l.pool = plan.NewPool(l.workers)
	}
	return l
}

// Scope returns the variables that live from step to step.
func (l *Local) Scope() *Scope { return l.scope }

// Step returns where the executor writes which step it is about to run. What WithComm passed in reads it from the goroutines of a
// step.
func (l *Local) Step() *ops.Step { return &l.now }

// Close waits for a running step and ends what New started. Runs after it fail.
func (l *Local) Close() error {
	l.busy <- struct{}{}
	defer l.release()
	select {
	case <-l.closed:
		return nil
	default:
	}
	close(l.closed)
	if l.pool != nil {
		l.pool.Close()
	}
	return nil
}

// acquire waits until no other step runs.
func (l *Local) acquire(ctx context.Context) error {
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return fault.E(fault.Canceled, fault.At("waiting for another step of this executor"), fault.Cause(context.Cause(ctx)))
	}
	select {
	case <-l.closed:
		l.release()
		return fault.New(fault.InvalidArgument, "the executor is closed")
	default:
		return nil
	}
}

func (l *Local) release() { <-l.busy }

// Run implements Executor. With no fetch, a program that has fetch ops of its own returns what these name.
func (l *Local) Run(ctx context.Context, p *program.Program, feed Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	compiled, err := l.planFor(ctx, p, feed, fetch)
	if err != nil {
		return nil, err
	}
	if err := l.step(ctx, compiled, feed, l.nextStep(compiled, feed)); err != nil {
		return nil, err
	}
	return cloneAll(compiled.Fetched()), nil
}

// shapesOf returns what a plan must know of a feed.
func shapesOf(feed Feed) (map[string]ops.Meta, error) {
	shapes := make(map[string]ops.Meta, len(feed))
	for name, t := range feed {
		if t == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that is nil"), fault.Want("a tensor"))
		}
		shapes[name] = ops.MetaOfValue(t)
	}
	return shapes, nil
}

// nextStep says which step comes next.
func (l *Local) nextStep(compiled *plan.Plan, feed Feed) ops.Step {
	s := ops.Step{Round: l.round}
	for _, t := range feed {
		if dims := t.Dims(); len(dims) > 0 {
			s.Rows = max(s.Rows, dims[0])
		}
	}
	return s
}

// step feeds and runs a plan. It allocates nothing after a plan's first step.
func (l *Local) step(ctx context.Context, compiled *plan.Plan, feed Feed, s ops.Step) error {
	for name, t := range feed {
		if err := compiled.Feed(name, t); err != nil {
			return err
		}
	}
	l.now = s
	compiled.SetStep(s)
	if err := compiled.Run(ctx, l.pool); err != nil {
		return err
	}
	if compiled.Trains() {
		l.round++
	}
	return nil
}
