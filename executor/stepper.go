package executor

import (
	"context"
	"sync/atomic"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A stepper runs plans step by step, and counts the steps that train. The state lock guards it.
type stepper struct {
	pool     *plan.Pool // nil for one worker
	progress Progress   // of the state
	now      ops.Step   // that runs, or ran last

	dayRounds int64 // see WithDayRounds
}

// next says which step comes next.
func (s *stepper) next(feed Feed) ops.Step {
	step := ops.Step{Round: s.progress.Steps}
	for _, t := range feed {
		if dims := t.Dims(); len(dims) > 0 {
			step.Rows = max(step.Rows, dims[0])
		}
	}
	return step
}

// run feeds and runs a plan. It allocates nothing after a plan's first step.
func (s *stepper) run(ctx context.Context, compiled *plan.Plan, feed Feed, step ops.Step) error {
	if err := s.feed(compiled, feed, step); err != nil {
		return err
	}
	if err := compiled.Run(ctx, s.pool); err != nil {
		return err
	}
	if compiled.Trains() {
		s.progress.Steps = step.Round + 1
	}
	return nil
}

// feed prepares a plan for a step.
func (s *stepper) feed(compiled *plan.Plan, feed Feed, step ops.Step) error {
	for name, t := range feed {
		if err := compiled.Feed(name, t); err != nil {
			return err
		}
	}
	s.begin(compiled, step)
	return nil
}

// begin notes which step a plan runs, and its hour.
func (s *stepper) begin(compiled *plan.Plan, step ops.Step) {
	s.now = step
	s.now.Hour = ops.HourOf(step.Round, s.dayRounds)
	compiled.SetStep(&s.now)
}

// runToUpdate feeds a plan, and runs what comes before its update.
func (s *stepper) runToUpdate(ctx context.Context, compiled *plan.Plan, feed Feed, step ops.Step) error {
	if err := s.feed(compiled, feed, step); err != nil {
		return err
	}
	return plan.RunToUpdate(ctx, compiled, s.pool)
}

// runEmpty runs a step without rows.
func (s *stepper) runEmpty(ctx context.Context, compiled *plan.Plan, step ops.Step) error {
	s.begin(compiled, step)
	return compiled.RunFromBarrier(ctx)
}

// A stateLock lets one caller at a time work on the state of an executor.
type stateLock struct {
	busy     chan struct{} // holds one value while a step runs, or the state is saved or loaded
	training chan struct{} // holds one value during Train and Load
	closed   chan struct{}
	callback atomic.Bool // the callback of Train runs
}

func newStateLock() stateLock {
	return stateLock{busy: make(chan struct{}, 1), training: make(chan struct{}, 1), closed: make(chan struct{})}
}

// acquire waits until no other caller holds the lock. It fails when ctx ends, and after close.
func (k *stateLock) acquire(ctx context.Context) error {
	if err := enter(ctx, k.busy, "waiting for another step of this executor"); err != nil {
		return err
	}
	select {
	case <-k.closed:
		k.release()
		return AfterClose()
	default:
		return nil
	}
}

// checkCall refuses a call of a closed executor, or with a nil program, before it does anything.
func (k *stateLock) checkCall(p *program.Program) error {
	if err := CheckProgram(p); err != nil {
		return err
	}
	select {
	case <-k.closed:
		return AfterClose()
	default:
		return nil
	}
}

// wait is acquire for what is allowed after close, too.
func (k *stateLock) wait() { k.busy <- struct{}{} }

func (k *stateLock) release() { <-k.busy }

// beginTraining waits until no other Train or Load runs. Its caller does not hold the lock, which callbacks of Train may acquire.
func (k *stateLock) beginTraining(ctx context.Context, why string) error {
	return enter(ctx, k.training, why)
}

func (k *stateLock) endTraining() { <-k.training }

// tell calls the callback of Train. checkCallback sees meanwhile that it runs.
func (k *stateLock) tell(each func(StepResult) error, s StepResult) error {
	k.callback.Store(true)
	defer k.callback.Store(false)
	err := each(s)
	select {
	case <-k.closed:
		return ClosedInCallback()
	default:
		return err
	}
}

// checkCallback refuses a call that changes the state while the callback of Train runs.
func (k *stateLock) checkCallback(call string) error {
	if k.callback.Load() {
		return RefuseInCallback(call)
	}
	return nil
}

// close lets each further acquire fail. It reports whether this is the first call. The caller holds the lock.
func (k *stateLock) close() bool {
	select {
	case <-k.closed:
		return false
	default:
		close(k.closed)
		return true
	}
}

// enter puts a value into a channel of one place, which the caller takes out again.
func enter(ctx context.Context, place chan struct{}, why string) error {
	if place == nil {
		return fault.New(fault.InvalidArgument, "an executor that New has not made")
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.E(fault.Canceled, fault.At(why), fault.Cause(context.Cause(ctx)))
	}
}
