package remote

import (
	"context"
	"errors"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Run implements executor.Executor.
//
// A program that trains is run by a fed job, which lives until another program trains, the state is saved or loaded, or the executor is closed. The
// batch is split over the trainers by rows, and what they fetch is joined.
//
// The executor keeps the feeds of the job, encoded, since the state that the job began with: at most 64 MiB or 1000 steps, and the last feed. Then the
// job ends before the next step, its state is kept, and another job begins with it. When a job fails, the executor begins another one with the kept
// state and feeds all of these steps again. In sync mode this gives the same bits. So the cost of a failure is the time of at most that many steps:
//
//   - A step that fails in a trainer, as for a value that is not finite or a label out of range, ends its job. Run returns the error when another job
//     has the state of the step before.
//   - When a job loses a pserver, the other job trains the step, too. Run tries so three times without getting further. Then it returns an error of kind
//     fault.LostMember, and the next call feeds the steps again.
//   - Steps are lost if no job can train them again, as when the listener has ended. The error says how many.
//
// A job that loses trainers or coordinators goes on, and nothing is fed again. A feed whose names, types or shapes are wrong is refused before, and ends
// no job.
//
// When ctx ends during a step, the step is trained or it is not. The next call of the executor finds out first, and Progress.Steps of a saved model
// counts it if it is. The batch of the next call is trained in any case. When ctx ends while steps are fed again, the next call goes on with that.
//
// A program that trains nothing runs in this process, on the values of the state.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := executor.CheckProgram(p); err != nil {
		return nil, err
	}
	trains := executor.Trains(p)
	call := "Run"
	if trains {
		call = "Run of a program that trains"
	}
	caller := ctx
	ctx, leave, err := e.enter(ctx, call, !trains)
	if err != nil {
		return nil, err
	}
	defer leave()
	var values []*tensor.Tensor
	if trains {
		values, err = e.trainStep(ctx, p, feed, fetch)
	} else {
		var local *executor.Local
		if local, err = e.values(ctx, p); err == nil {
			values, err = local.Run(ctx, p, feed, fetch...)
		}
	}
	return values, orClosed(e.open, caller, "a step", err)
}

// trainStep runs one fed step of a program that trains.
func (e *Executor) trainStep(ctx context.Context, p *program.Program, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if len(feed) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a step without a feed"), fault.Want("a batch"),
			fault.Hint("a program that reads its own data is run by Train"))
	}
	var encoded []*job.Value
	for _, name := range sortedNames(feed) {
		if feed[name] == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that is nil"), fault.Want("a tensor"))
		}
		encoded = append(encoded, &job.Value{Name: name, Stream: tensor.AppendStream(nil, feed[name])})
	}
	if e.session != nil && (!e.session.runs(p) || e.session.log.full(e.bounds)) {
		if err := e.settle(ctx); err != nil {
			return nil, err
		}
	}
	if e.session == nil {
		s, err := newSession(e.client, p)
		if err != nil {
			return nil, err
		}
		e.session = s
	}
	done, err := e.inJob(ctx, func(s *session) (*rpc.StepDone, error) {
		done, err := s.run(ctx, encoded, fetch)
		if err != nil && ctx.Err() == nil {
			_ = s.resolve(ctx) // so that the next call finds a job that lives, or look one that has ended
		}
		return done, err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(done.Step.GetFetched(), fetch)
}

// An outcome is what has become of a fed job whose call has failed.
type outcome int

const (
	undecided   outcome = iota // it lives, or nobody can tell now
	left                       // it has ended and left a state, without the step that was under way
	leftTrained                // it has ended and left a state, and the step that was under way is part of it
	lost                       // it is gone because a member was lost. Another one can do better
	failed                     // it is gone for another reason, or too many were lost
)

// inJob calls do with a job that has trained the whole log. When that job is lost, or has ended well before, inJob calls do again with another one.
// When the job has failed for another reason, inJob brings the state back before it returns the error.
func (e *Executor) inJob(ctx context.Context, do func(*session) (*rpc.StepDone, error)) (*rpc.StepDone, error) {
	for {
		if err := e.catchUp(ctx); err != nil {
			return nil, err
		}
		done, err := do(e.session)
		if err == nil {
			return done, nil
		}
		what, cause := e.look(ctx, err)
		if ctx.Err() == nil && (what == left || what == lost) {
			continue
		}
		switch {
		case what == undecided && ctx.Err() == nil && errors.Is(err, fault.Unavailable):
			return nil, e.atRisk(err)
		case what != failed:
			return nil, err
		}
		if ctx.Err() != nil || errors.Is(cause, fault.Canceled) || errors.Is(cause, fault.LostMember) {
			return nil, e.atRisk(cause) // a job that a user has stopped does not begin again before the next call
		}
		if len(e.session.log.steps) == 0 { // the state is the kept one
			e.session = nil
			return nil, cause
		}
		if wrong := e.catchUp(ctx); wrong != nil {
			cause = errors.Join(cause, wrong)
		}
		return nil, cause
	}
}

// catchUp brings a job to where it has trained the whole log. It begins the job if none runs.
func (e *Executor) catchUp(ctx context.Context) error {
	for {
		s := e.session
		if s.id == "" {
			if err := e.openJob(ctx); err != nil {
				return err
			}
		}
		err := s.replay(ctx)
		if err == nil {
			return nil
		}
		at, inLog := s.trained, s.trained < len(s.log.steps)
		what, cause := e.look(ctx, err)
		switch {
		case ctx.Err() != nil:
			return err
		case what == left, what == leftTrained, what == lost:
			continue
		case what == failed && inLog && fault.KindOf(cause).Permanent(): // a step that was trained before cannot be trained again
			n := len(s.log.steps) - at
			s.log.drop(at, len(s.log.steps))
			return lostSteps(cause, n)
		case what == failed && !inLog && !errors.Is(cause, fault.LostMember) && s.countLoss(): // because of the step of an earlier call, which was given up
			continue
		}
		return e.atRisk(cause)
	}
}

// openJob begins a fed job with the kept state.
func (e *Executor) openJob(ctx context.Context) error {
	s := e.session
	spec := e.state.spec(e.spec, s.program)
	spec.Data, spec.Fed = nil, true
	if spec.State != "" {
		spec.Params = "" // they were the beginning of the first job
	}
	err := absolute(&spec.Save, &spec.Params)
	if err == nil {
		err = s.open(ctx, spec, e.state.now.Steps, e.scaled)
	}
	switch n := len(s.log.steps); {
	case err == nil:
		return nil
	case n == 0:
		e.session = nil
		return err
	case errors.Is(err, fault.NotFound): // the listener does not hold the kept state any more
		e.session = nil
		e.forgetValues()
		return lostSteps(err, n)
	case ctx.Err() != nil:
		return err
	}
	return e.atRisk(err)
}

// lostSteps is the error of a call that cannot bring back the last steps of the log.
func lostSteps(err error, steps int) error {
	return fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(err),
		fault.Hintf("%d steps that were fed are lost with their job; the state is that before the first of them", steps))
}

// atRisk is the error of a call that has not brought back the steps of the log.
func (e *Executor) atRisk(err error) error {
	n := len(e.session.log.steps)
	if n == 0 {
		return err
	}
	return fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(err),
		fault.Hintf("%d steps that were fed are lost with their job, unless the next call can feed them again: it tries", n))
}

// settle ends the fed job, if there is one: its state becomes the kept state.
func (e *Executor) settle(ctx context.Context) error {
	for {
		s := e.session
		if s == nil || s.id == "" && len(s.log.steps) == 0 {
			e.session = nil
			return nil
		}
		if err := e.catchUp(ctx); err != nil {
			return err
		}
		status, err := e.client.Finish(ctx, s.id, nil)
		if err == nil {
			e.scaled = status.Trainers
			e.take(ctx, status.Progress)
			e.session = nil
			return nil
		}
		what, cause := e.look(ctx, err)
		switch {
		case what == left && cause != nil: // only the saving of its model has failed
			e.session = nil
			return cause
		case ctx.Err() != nil, what == undecided:
			return err
		case what == failed:
			return e.atRisk(cause)
		}
	}
}

// take makes the state that the job has left the kept one. The log keeps the steps that the job has not trained. take reports whether the state has a
// step more than the log.
func (e *Executor) take(ctx context.Context, p *job.Progress) (more bool) {
	s := e.session
	n := int(p.GetSteps() - s.begin)
	more = n > len(s.log.steps)
	s.log.drop(0, min(n, len(s.log.steps)))
	e.state.become(ctx, s.id, p)
	clear(e.read)
	s.closeJob()
	s.furthest = 0
	return more
}

// look finds out what has become of the fed job after an error, and notes it. It returns the error with which the job has ended: after left that of
// the saving of its model, which may be nil.
func (e *Executor) look(ctx context.Context, err error) (outcome, error) {
	s := e.session
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	status, unknown := e.client.Status(ctx, s.id)
	known := unknown == nil
	failure := wire.FaultOf(status.GetFailure())
	switch {
	case !known && !errors.Is(unknown, fault.NotFound):
		return undecided, err
	case known && !ended(status.State):
		if !errors.Is(err, fault.LostMember) {
			return undecided, err
		}
		_ = e.client.Stop(ctx, s.id) // it goes on without some steps
		failure = err
	case known && (status.State == job.State_SUCCEEDED || status.Kept):
		e.scaled = status.Trainers
		if e.take(ctx, status.Progress) {
			return leftTrained, err
		}
		if e.spec.Save == "" {
			failure = nil
		}
		return left, failure
	}
	if failure == nil {
		failure = err
	}
	e.scaled = status.GetTrainers()
	s.closeJob()
	if (!known || errors.Is(failure, fault.LostMember)) && s.countLoss() { // not known: another listener has taken the place of that of the job
		return lost, failure
	}
	return failed, failure
}
