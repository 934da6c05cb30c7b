package executor

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // a program that was loaded may have any op
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var _ Executor = (*Local)(nil)

// Local runs programs in this process. Its state is a Scope and a Progress. Calls from several goroutines wait for each other; the callback of Train
// may call Run and Save of the same executor. For inference on several goroutines make one Local for each, over one Scope.
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

	busy     chan struct{} // holds one value while a step runs, or the state is saved or loaded
	training chan struct{} // holds one value during Train and Load
	closed   chan struct{}
	pool     *plan.Pool // nil for one worker
	cache    planCache
	progress Progress
	now      ops.Step
}

// New returns an executor for this machine. Close ends its goroutines.
func New(options ...Option) *Local {
	l := &Local{scope: NewScope(), workers: 1, grain: defaultGrain, checkFinite: true, log: slog.New(slog.DiscardHandler),
		busy: make(chan struct{}, 1), training: make(chan struct{}, 1), closed: make(chan struct{})}
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

// Progress returns how far training is.
func (l *Local) Progress() Progress {
	l.busy <- struct{}{}
	defer l.release()
	return l.progress
}

// SetProgress says how far training is, for a caller that fills the Scope itself.
func (l *Local) SetProgress(p Progress) {
	l.busy <- struct{}{}
	defer l.release()
	l.progress = p
}

// acquire waits until no other step runs.
func (l *Local) acquire(ctx context.Context) error {
	if err := enter(ctx, l.busy, "waiting for another step of this executor"); err != nil {
		return err
	}
	select {
	case <-l.closed:
		l.release()
		return fault.New(fault.InvalidArgument, "the executor is closed")
	default:
		return nil
	}
}

// enter puts a value into a channel of one place, which the caller takes out again.
func enter(ctx context.Context, place chan struct{}, why string) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.E(fault.Canceled, fault.At(why), fault.Cause(context.Cause(ctx)))
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
	if !compiled.Trains() {
		compiled.Keep()
		defer compiled.Restore()
	}
	if err := l.step(ctx, compiled, feed, l.nextStep(feed)); err != nil {
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
func (l *Local) nextStep(feed Feed) ops.Step {
	s := ops.Step{Round: l.progress.Steps}
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
		l.progress.Steps = s.Round + 1
	}
	return nil
}

// An Option changes how New makes a Local.
type Option func(*Local)

// WithScope makes the executor work on variables that others see too. The default is a new scope.
func WithScope(s *Scope) Option { return func(l *Local) { l.scope = s } }

// WithWorkers lets n goroutines, one of them the caller's, run the ops of a step. Each op runs as soon as its inputs are ready; large ops are divided.
// A program that is too small to gain from it runs on the caller's alone. Results are the same bits for every n. The default is 1.
func WithWorkers(n int) Option { return func(l *Local) { l.workers = n } }

// defaultGrain is some times what it takes to hand a part over to a worker that looks for one.
const defaultGrain = 2 * time.Microsecond

// WithGrain says how long a part of a step must take, by estimate, to be worth another worker; the default is 2 µs. A program that takes less than 50
// times as long runs on the caller's goroutine alone. With 0 whatever can be divided is, which is slow and leaves no order unused: for tests.
func WithGrain(d time.Duration) Option { return func(l *Local) { l.grain = d } }

// WithComm gives send, recv and barrier ops the wire to the pservers.
func WithComm(c ops.Comm) Option { return func(l *Local) { l.env.Comm = c } }

// WithServer gives listen_and_serv what it serves with.
func WithServer(s ops.Server) Option { return func(l *Local) { l.env.Server = s } }

// WithStorage gives save and load ops their files; see NewStorage.
func WithStorage(s ops.Storage) Option { return func(l *Local) { l.env.Storage = s } }

// WithStage says by which rules programs are verified before they run; the default is program.StageLocal.
func WithStage(s program.Stage) Option { return func(l *Local) { l.stage = s } }

// WithoutFiniteCheck lets a training step go on when its loss or a fetched variable is NaN or infinite. By default the step
// fails before it changes parameters.
func WithoutFiniteCheck() Option { return func(l *Local) { l.checkFinite = false } }

// WithLogger reports at debug level what was compiled, and at info level when a startup program runs. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(l *Local) { l.log = log } }

// A Prepared is a program compiled for feeds of fixed shapes: the path for callers that run many steps and want none to
// allocate. It is the program as it was when it was prepared. It runs on the Local that made it, one step at a time.
type Prepared struct {
	local *Local
	plan  *plan.Plan
}

// Prepare compiles p for feeds with the dtypes and dims of example. Like Run it gives persistable variables
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

// Run runs one step, as Executor.Run does. The tensors that it returns are the plan's own memory, or that of variables of the Scope, and are valid
// until the next Run. A feed that is left out keeps the tensor of the step before.
func (p *Prepared) Run(ctx context.Context, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.release()
	if !p.plan.Trains() {
		p.plan.Keep()
		defer p.plan.Restore()
	}
	return p.plan.Fetched(), p.local.step(ctx, p.plan, feed, p.local.nextStep(feed))
}

// RunStep is Run for a caller that knows the number of the step and the rows of the trainer. A program that does not train may change the variables that it writes.
func (p *Prepared) RunStep(ctx context.Context, step ops.Step, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.release()
	return p.plan.Fetched(), p.local.step(ctx, p.plan, feed, step)
}

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

// RunStep is Run for a caller that knows the number of the step and the rows of the trainer. A step without rows, which a trainer meets when there
// are more trainers than rows in a batch, runs p from its send_barrier on and fetches nothing; its feed only says what shapes the rows
// would have. A program that does not train may change the variables that it writes.
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

// startup gives the persistable variables that p reads and that have no value yet the values that p.Startup computes. Variables that have
// a value keep it, so a model that was loaded in part is completed and not overwritten. Sub-blocks may read what arrives only while the
// program runs, so only the global block must find everything.
func (l *Local) startup(ctx context.Context, p *program.Program) error {
	if len(l.missing(p.Blocks)) == 0 {
		return nil
	}
	if p.Startup != nil && len(p.Startup.Global().Ops) > 0 {
		if err := l.runStartup(ctx, p.Startup); err != nil {
			return err
		}
	}
	if missing := l.missing(p.Blocks[:1]); len(missing) > 0 {
		return fault.E(fault.NotFound, fault.Got("no value for the persistable variables "+strings.Join(missing, ", ")),
			fault.Want("a value from the startup program or from a file"),
			fault.Hint("load parameters, or run a program whose startup program writes these"))
	}
	return nil
}

// runStartup takes over what a startup program computes for variables that have no value.
func (l *Local) runStartup(ctx context.Context, startup *program.Program) error {
	fresh, err := l.initialValues(ctx, startup)
	if err != nil {
		return err
	}
	for _, name := range fresh.Names() {
		if _, ok := l.scope.Find(name); ok {
			continue
		}
		value, _ := fresh.Find(name)
		if err := l.scope.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// initialValues runs a startup program in a scope of its own. It was verified with the program that carries it.
func (l *Local) initialValues(ctx context.Context, startup *program.Program) (*Scope, error) {
	fresh := NewScope()
	compiled, err := plan.Compile(plan.Request{Block: startup.Global(), Scope: fresh, Env: l.env, Workers: l.workers, Grain: l.grain})
	if err != nil {
		return nil, err
	}
	l.log.InfoContext(ctx, "running the startup program", "variables", len(compiled.Written()))
	return fresh, compiled.Run(ctx, l.pool)
}

// missing lists the persistable tensors that some of blocks reads before it writes them and that have no value, in the
// order of the ops.
func (l *Local) missing(blocks []*program.Block) []string {
	var names []string
	seen := map[string]bool{}
	for _, b := range blocks {
		for _, op := range b.Ops {
			for _, name := range op.InputNames() {
				v, ok := b.Find(name)
				if !ok || !v.Persistable || v.Kind != program.LoDTensor || seen[name] {
					continue
				}
				seen[name] = true
				if _, ok := l.scope.Find(name); !ok {
					names = append(names, name)
				}
			}
			for _, name := range op.OutputNames() {
				seen[name] = true
			}
		}
	}
	return names
}
