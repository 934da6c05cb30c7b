package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/freememory"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // a program that was loaded may have any op
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var _ Executor = (*Local)(nil)

// Local runs programs in this process. Its state is a Scope and a Progress. Calls from several goroutines wait for each other. For inference on several
// goroutines make one Local for each, over one Scope: a run of a program for inference, which reads persistable variables and computes none, writes nothing there but first
// values that are missing.
type Local struct {
	settings
	lock    stateLock
	startup startup // gives variables their first values; the lock guards it and what follows
	planner planner // makes plans and keeps them
	stepper stepper // runs plans
}

// settings are what the options of New choose. They do not change afterwards.
type settings struct {
	scope       *Scope
	workers     int
	env         ops.Env
	stage       program.Stage
	checkFinite bool
	without     []Fusion
	grain       time.Duration
	profile     *Profile
	log         *slog.Logger
	store       *plan.Store  // of the temporaries of all plans, of which the lock lets one run at a time
	memory      func() int64 // bytes that a new plan may need; 0 is no bound
	dayRounds   int64        // steps that a day takes; 0: 24 hours of the clock
}

// New returns an executor for this machine. Close ends its goroutines.
func New(options ...Option) *Local {
	l := &Local{lock: newStateLock(),
		settings: settings{scope: NewScope(), workers: 1, grain: defaultGrain, checkFinite: true, log: slog.New(slog.DiscardHandler),
			store: plan.NewStore()}}
	l.memory = l.freeMemory
	for _, option := range options {
		option(l)
	}
	if l.workers > 1 {
		l.stepper.pool = plan.NewPool(l.workers)
	}
	l.stepper.dayRounds = l.dayRounds
	l.startup = startup{&l.settings, l.stepper.pool}
	l.planner = planner{settings: &l.settings, startup: &l.startup}
	return l
}

// freeMemory is what a new plan may need: what is free, and the temporaries that it will share. It is 0 where the system does not say.
func (l *Local) freeMemory() int64 {
	if free := freememory.Bytes(); free > 0 {
		return free + l.store.Bytes()
	}
	return 0
}

// Scope returns the variables that live from step to step.
func (l *Local) Scope() *Scope { return l.scope }

// Step returns the place where the executor writes which step it runs. An ops.Comm of WithComm may read it on the goroutines of a step.
func (l *Local) Step() *ops.Step { return &l.stepper.now }

// Close waits for a running step and ends what New started. Runs after it fail.
func (l *Local) Close() error {
	l.lock.wait()
	defer l.lock.release()
	if l.lock.close() && l.stepper.pool != nil {
		l.stepper.pool.Close()
	}
	return nil
}

// Progress returns how far training is.
func (l *Local) Progress() Progress {
	l.lock.wait()
	defer l.lock.release()
	return l.stepper.progress
}

// SetProgress says how far training is, for a caller that fills the Scope itself.
func (l *Local) SetProgress(p Progress) {
	l.lock.wait()
	defer l.lock.release()
	l.stepper.progress = p
}

// Run implements Executor. With no fetch, a program that has fetch ops of its own returns what these name.
func (l *Local) Run(ctx context.Context, p *program.Program, feed Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := l.lock.checkCall(p); err != nil {
		return nil, err
	}
	if err := l.lock.checkCallback("Run of a program that trains"); err != nil && Trains(p) {
		return nil, err
	}
	if err := l.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.lock.release()
	compiled, err := l.planner.planFor(ctx, p, feed, fetch)
	if err != nil {
		return nil, err
	}
	if !compiled.Trains() {
		compiled.Keep()
		defer compiled.Restore()
	}
	if err := l.stepper.run(ctx, compiled, feed, l.stepper.next(feed)); err != nil {
		return nil, err
	}
	return cloneAll(compiled.Fetched()), nil
}

// shapesOf returns what a plan of p must know of a feed.
func shapesOf(p *program.Program, feed Feed) (map[string]ops.Meta, error) {
	shapes, depends := make(map[string]ops.Meta, len(feed)), ops.DependenceOf(p)
	for name, t := range feed {
		if t == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that is nil"), fault.Want("a tensor"))
		}
		meta, err := depends.MetaOf(name, t)
		if err != nil {
			return nil, err
		}
		shapes[name] = meta
	}
	return shapes, nil
}

// An Option changes how New makes a Local.
type Option func(*Local)

// WithScope makes the executor work on variables that others see too. The default is a new scope.
func WithScope(s *Scope) Option { return func(l *Local) { l.scope = s } }

// WithWorkers lets n goroutines, one of them the caller's, run the ops of a step. Each op runs as soon as its inputs are ready; large ops are
// divided. A program that is too small to gain from it runs on the caller's alone. Results are the same bits for every n. The default is 1.
func WithWorkers(n int) Option { return func(l *Local) { l.workers = n } }

// WithDayRounds makes a day take n steps, for ops that count days (layers.EvictUnseenDays): a run over the records of past days, or one that is to be the same each
// time. With 0, the default, the clock of the machine says the day.
func WithDayRounds(n int64) Option { return func(l *Local) { l.dayRounds = n } }

// WithMemory refuses a program, before anything is allocated, if one plan of it needs more than n bytes; 0 refuses none. The default is what the
// machine or the control group of the process has free, where the system says.
func WithMemory(n int64) Option { return func(l *Local) { l.memory = func() int64 { return n } } }

// defaultGrain is a few times as long as it takes to hand a part over to a worker that looks for one.
const defaultGrain = 2 * time.Microsecond

// WithGrain says how long a part of a step must take, by estimate, to be worth another worker; the default is 2 µs. A program that takes less than 50
// times as long runs on the caller's goroutine alone. With 0, everything that can be divided is divided. That is slow; tests use it to try every
// order.
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

// WithLogger reports at debug level what was compiled, at info level when a startup program runs, and at ops.LevelPrint what ops print. The default is silence.
func WithLogger(log *slog.Logger) Option {
	return func(l *Local) { l.log, l.env.Log = log, log }
}

// A Prepared is a program that was compiled for feeds of fixed shapes. Its steps allocate nothing, which pays for callers that run many. Later
// changes of the program have no effect on it. It runs on the Local that made it, one step at a time.
type Prepared struct {
	local *Local
	plan  *plan.Plan
}

// Prepare compiles p for feeds with the dtypes and dims of example. Like Run it gives persistable variables
// without a value those of p.Startup.
func (l *Local) Prepare(ctx context.Context, p *program.Program, example Feed, fetch ...string) (*Prepared, error) {
	if err := l.lock.checkCall(p); err != nil {
		return nil, err
	}
	if err := l.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.lock.release()
	shapes, err := shapesOf(p, example)
	if err != nil {
		return nil, err
	}
	compiled, err := l.planner.compile(ctx, l.planner.versions.of(p), shapes, fetch)
	if err != nil {
		return nil, err
	}
	return &Prepared{l, compiled}, nil
}

// Weight returns what a trainer's part of a batch has weighed in the last step, when the feeds were such a part: see ops.WeightOf. It is 0 where rows are the
// weight.
func (p *Prepared) Weight() (int64, error) { return p.plan.Weight() }

// Run runs one step, as Executor.Run does. The tensors that it returns are the plan's own memory, or that of variables of the Scope, and are valid
// until the next Run. A feed that is left out keeps the tensor of the step before.
func (p *Prepared) Run(ctx context.Context, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.lock.release()
	if !p.plan.Trains() {
		p.plan.Keep()
		defer p.plan.Restore()
	}
	s := &p.local.stepper
	return p.plan.Fetched(), s.run(ctx, p.plan, feed, s.next(feed))
}

// Feed gives variables values for the next Run, which may leave them out. After it the program holds no tensor of an earlier step in their place.
func (p *Prepared) Feed(ctx context.Context, feed Feed) error {
	if err := p.local.lock.acquire(ctx); err != nil {
		return err
	}
	defer p.local.lock.release()
	for name, t := range feed {
		if err := p.plan.Feed(name, t); err != nil {
			return err
		}
	}
	return nil
}

// RunStep is Run for a caller that knows the number of the step and the rows of the trainer. A program that does not train may change the variables
// that it writes.
func (p *Prepared) RunStep(ctx context.Context, step ops.Step, feed Feed) ([]*tensor.Tensor, error) {
	if err := p.local.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.local.lock.release()
	return p.plan.Fetched(), p.local.stepper.run(ctx, p.plan, feed, step)
}

// Startup gives the persistable variables of p that have no value yet those of p.Startup. Run and Train do it by themselves; a caller that
// must know when it happens, such as a trainer whose startup program receives parameters, calls it first.
func (l *Local) Startup(ctx context.Context, p *program.Program) error {
	if err := l.lock.acquire(ctx); err != nil {
		return err
	}
	defer l.lock.release()
	if err := ops.Verify(p, l.stage); err != nil {
		return err
	}
	return l.startup.complete(ctx, p)
}

// RunStep is Run for a caller that knows the number of the step and the rows of the trainer. A step without rows, which a trainer meets when there
// are more trainers than rows in a batch, runs p from its send_barrier on and fetches nothing; its feed only says what shapes the rows
// would have. A program that does not train may change the variables that it writes.
func (l *Local) RunStep(ctx context.Context, p *program.Program, step ops.Step, feed Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := l.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.lock.release()
	if step.Rows == 0 {
		var err error
		if feed, err = oneRow(feed); err != nil {
			return nil, err
		}
	}
	compiled, err := l.planner.planFor(ctx, p, feed, fetch)
	if err != nil {
		return nil, err
	}
	if step.Rows == 0 {
		return nil, l.stepper.runEmpty(ctx, compiled, step)
	}
	if err := l.stepper.run(ctx, compiled, feed, step); err != nil {
		return nil, err
	}
	return cloneAll(compiled.Fetched()), nil
}

// RunToUpdate runs p up to its update, or up to what it exchanges with other machines. It is for a device of a trainer, whose executor has a Scope below that of
// the trainer's. It returns what is fetched, and the variables of keep, which need not be finite: memory of a plan or of the Scope, valid until the next
// step. Step has the weight of the rows afterwards. Variables that only the rest of p computes have no meaning.
func (l *Local) RunToUpdate(ctx context.Context, p *program.Program, step ops.Step, feed Feed, fetch, keep []string) (fetched, kept []*tensor.Tensor, err error) {
	if err := l.lock.acquire(ctx); err != nil {
		return nil, nil, err
	}
	defer l.lock.release()
	compiled, err := l.planner.planFor(ctx, p, feed, fetch, keep...)
	if err != nil {
		return nil, nil, err
	}
	return compiled.Fetched(), plan.Kept(compiled), l.stepper.runToUpdate(ctx, compiled, feed, step)
}

// oneRow gives every feed that has no rows one, and every feed without sequences one of one row, so that a plan can be made.
func oneRow(feed Feed) (Feed, error) {
	padded := Feed{}
	for name, t := range feed {
		padded[name] = t
		if dims := t.Dims(); len(dims) > 0 && dims[0] == 0 {
			row, err := tensor.New(t.DType(), append([]int64{1}, dims[1:]...)...)
			if err != nil {
				return nil, err
			}
			for range t.LoD() {
				row.SetLoD(append(row.LoD(), singles(1)))
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
