package remote

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A training is a job of Train that trains. While its callback runs, the job waits for the acknowledgement of the step, so that calls can read the state
// after that step from the job.
type training struct {
	client    *Client
	job       *Job
	program   *program.Program
	attempt   int             // of the step that the callback was given
	step      uint64          // its number
	evaluated bool            // the callback is that of an evaluation
	initial   *executor.Scope // what the startup program computes; nil: not computed yet
}

// tell makes a callback that notes which step the one inside is given.
func (t *training) tell(each func(executor.StepResult) error) func(executor.StepResult) error {
	if each == nil {
		return nil
	}
	return func(s executor.StepResult) error {
		t.attempt, t.step = s.Attempt, s.Step
		return each(s)
	}
}

// has reports whether a variable is a part of the state of the job.
func (t *training) has(name string) bool {
	v, ok := t.program.Global().Var(name)
	return ok && v.Persistable
}

// read calls take with those of the named variables that the job has, and returns the Progress of the state that all of them are of. A variable that no
// server holds does not change: if the job did not begin with a value of it, the startup program makes it here.
func (t *training) read(ctx context.Context, s *state, names []string, take func(name string, value *tensor.Tensor) error) (executor.Progress, error) {
	if !t.job.sync || !t.job.ahead && !(t.evaluated && t.job.waits) {
		return executor.Progress{}, fault.E(fault.InvalidArgument, fault.At("remote executor"),
			fault.Got("a call from the callback of Train to a job that does not wait for the callback"),
			fault.Want("a sync job, and TrainOptions.Ahead of 0 or more"), fault.Hint("or train pass by pass, and call between the passes"))
	}
	missing := slices.Clone(names)
	found := func(name string, value *tensor.Tensor) error {
		missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
		return take(name, value)
	}
	progress, err := t.readJob(ctx, s, names, found)
	if err != nil || len(missing) == 0 {
		return progress, err
	}
	if t.initial == nil {
		local := executor.New()
		defer local.Close()
		if err := local.Startup(ctx, t.program); err != nil {
			return progress, err
		}
		t.initial = local.Scope()
	}
	for _, name := range missing {
		if value, ok := t.initial.Find(name); ok {
			if err := take(name, value.Clone()); err != nil {
				return progress, err
			}
		}
	}
	return progress, nil
}

// readJob is read for the variables that the job knows. They come in several answers where they are large; all must be of the same state.
func (t *training) readJob(ctx context.Context, s *state, names []string, take func(name string, value *tensor.Tensor) error) (executor.Progress, error) {
	var first *rpc.StepDone
	for rest := names; first == nil || len(rest) > 0; {
		n := s.atOnce(rest)
		done, ended, err := t.ask(ctx, rest[:n])
		if err != nil {
			return executor.Progress{}, err
		}
		if ended != nil { // the data has ended, and the job has left its state
			left := &state{client: t.client, id: t.job.ID, sizes: s.sizes}
			return jobspec.ProgressOf(ended.Progress), left.read(ctx, names, take)
		}
		if first == nil {
			first = done
		}
		if done.Step.Step != first.Step.Step { // the job was ahead of the callback, and has gone on to where it waits
			first, rest = nil, names
			continue
		}
		for _, v := range done.Step.Fetched {
			value, err := decode(v)
			if err == nil {
				err = take(v.Name, value)
			}
			if err != nil {
				return executor.Progress{}, err
			}
		}
		rest = rest[n:]
	}
	return jobspec.ProgressOf(first.Progress), nil
}

// ask asks the job for variables until it answers, or has ended well.
func (t *training) ask(ctx context.Context, names []string) (done *rpc.StepDone, end *job.JobStatus, err error) {
	for pause := stepPause; ; pause = min(2*pause, longStepPause) {
		done, err := wire.RunStep(ctx, t.client.address, t.client.service.RunStep, &rpc.Identity{Job: t.job.ID}, &rpc.StepRun{Fetch: names})
		err = t.client.at(err)
		s, unknown := statusOf(ctx, t.client, t.job.ID)
		switch {
		case unknown != nil:
			return nil, nil, unknown
		case int(s.Attempt) != t.attempt:
			return nil, nil, fault.E(fault.LostMember, fault.At("job "+t.job.ID), fault.Gotf("the start of attempt %d", s.Attempt),
				fault.Wantf("the state after step %d of attempt %d", t.step, t.attempt),
				fault.Hint("return from the callback; it is given the steps of the next attempt"))
		case err == nil:
			return done, nil, nil
		case ended(s.State):
			if s.State == job.State_SUCCEEDED {
				return nil, s, nil
			}
			return nil, nil, errors.Join(wire.FaultOf(s.Failure), err)
		case !errors.Is(err, fault.Unavailable):
			return nil, nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, err
		}
	}
}
