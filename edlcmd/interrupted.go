package edlcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// stepLimit is how long a run that gets a signal waits for the end of its step, and of the save after it. Whoever waits for the process, such as an init system, gives it more.
const stepLimit = 10 * time.Second

// An endOfStep lets a training on this machine end with a step when a signal comes, so that its state can be saved: within a step, parameters are partly those of the step before.
// The zero endOfStep does nothing: a signal ends the training at once.
type endOfStep struct {
	ctx   context.Context // ends with the signal; nil: the zero endOfStep
	train context.Context // ends stepLimit later
	saves string          // directory that the state goes to
}

// endsWithStep returns the context that a training is given, and its endOfStep. The caller calls release when the training is over. Trials of a sweep end at once: the sweep begins them anew.
func (f *runFlags) endsWithStep(ctx context.Context, c *console, spec *job.JobSpec, p *program.Program) (e endOfStep, release func()) {
	if f.where.remote || spec.Save == "" || f.eval.best != "" || c.ran != nil || !trains(p) {
		return endOfStep{train: ctx}, func() {}
	}
	train, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stepLimit):
			cancel(context.Cause(ctx))
		case <-train.Done():
		}
	})
	return endOfStep{ctx, train, spec.Save}, func() { stop(); cancel(nil) }
}

// after is what the callback of a step returns: executor.ErrStop when a signal has come.
func (e endOfStep) after() error {
	if e.ctx != nil && e.ctx.Err() != nil {
		return executor.ErrStop
	}
	return nil
}

// ended returns why a training ended that a signal has stopped, and says what has become of its state; nil: no signal has stopped it. err is the error of the training.
func (e endOfStep) ended(said io.Writer, progress executor.Progress, s executor.Summary, err error) error {
	switch {
	case e.ctx == nil || e.ctx.Err() == nil:
		return nil
	case err == nil && s.Stopped:
		fmt.Fprintf(said, "the state after %d steps is in %s: --params %s goes on there\n", progress.Steps+s.Steps, e.saves, e.saves)
		return context.Cause(e.ctx)
	case e.train.Err() != nil:
		fmt.Fprintf(said, "nothing was saved to %s: the step did not end within %v\n", e.saves, stepLimit)
		return context.Cause(e.ctx)
	}
	return nil
}

// sayLost says what is left of a job whose cluster a signal has ended with the command.
func (f *runFlags) sayLost(ctx context.Context, said io.Writer, spec *job.JobSpec, p *program.Program) {
	if ctx.Err() == nil || !f.where.remote || f.where.address != "" || spec.Save == "" || f.eval.best != "" || !trains(p) {
		return
	}
	if store := spec.Checkpoints.GetStore(); store != "" {
		fmt.Fprintf(said, "nothing was saved to %s; \"edl checkpoint list %s\" shows what the job has kept\n", spec.Save, store)
		return
	}
	fmt.Fprintf(said, "nothing was saved to %s; a job with --checkpoint STORE keeps what it has trained\n", spec.Save)
}
