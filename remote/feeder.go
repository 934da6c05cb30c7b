package remote

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A feeder keeps the session of an executor in a job: it begins jobs with the kept state, feeds steps again, and finds out what has become of a job
// that fails. Calls on it are those of the executor, one at a time.
type feeder struct {
	client   *Client
	template *JobSpec
	state    *state
	session  *session  // nil: no step was fed since the kept state
	scaled   int32     // trainers of the last fed job
	bounds   logBounds // of the log of session
}

// step runs one step of a program that trains. It returns what the step fetched.
func (f *feeder) step(ctx context.Context, p *program.Program, feed []*job.Value, fetch []string) (*rpc.StepDone, error) {
	if f.session != nil && (!f.session.runs(p) || f.session.log.full(f.bounds)) {
		if err := f.settle(ctx); err != nil {
			return nil, err
		}
	}
	if f.session == nil {
		s, err := newSession(f.client, p, f.state.now.Steps, jobspec.DeadlinesOf(f.template).OrFailure())
		if err != nil {
			return nil, err
		}
		f.session = s
	}
	return f.inJob(ctx, func(s *session) (*rpc.StepDone, error) {
		before := len(s.log.steps)
		done, err := s.run(ctx, feed, fetch)
		if err != nil && ctx.Err() == nil {
			_ = s.resolve(ctx) // so that the next call finds a job that lives, or look one that has ended
		}
		if err != nil && len(s.log.steps) > before && !errors.Is(err, fault.Duplicate) {
			err = fault.E(fault.Duplicate, fault.At("remote executor"), fault.Got("a step that is trained, and no answer"), fault.Want("what it fetched"),
				fault.Hint("the step is trained: go on with the next one"), fault.Cause(err))
		}
		return done, err
	})
}

// read reads variables of the job.
func (f *feeder) read(ctx context.Context, names []string) ([]*tensor.Tensor, error) {
	done, err := f.inJob(ctx, func(s *session) (*rpc.StepDone, error) {
		done, err := s.run(ctx, nil, names)
		if err != nil && ctx.Err() == nil {
			_ = s.resolve(ctx) // as in step
		}
		return done, err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(done.Step.GetFetched(), names)
}

// has reports whether a variable is in the job, and not in the kept state only.
func (f *feeder) has(name string) bool { return f.session != nil && f.session.has(name) }

// steps is Progress.Steps of the state.
func (f *feeder) steps() uint64 {
	if f.session == nil {
		return f.state.now.Steps
	}
	return f.session.begin + uint64(len(f.session.log.steps))
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
func (f *feeder) inJob(ctx context.Context, do func(*session) (*rpc.StepDone, error)) (*rpc.StepDone, error) {
	for {
		if err := f.catchUp(ctx); err != nil {
			return nil, err
		}
		done, err := do(f.session)
		if err == nil || errors.Is(err, fault.Duplicate) { // a step that is trained is never trained again
			return done, err
		}
		what, cause := f.look(ctx, err)
		if ctx.Err() == nil && (what == left || what == lost) {
			continue
		}
		switch {
		case what == undecided && ctx.Err() == nil && errors.Is(err, fault.Unavailable):
			return nil, f.atRisk(err)
		case what != failed:
			return nil, err
		}
		if ctx.Err() != nil || errors.Is(cause, fault.Canceled) || fault.IsLost(cause) {
			return nil, f.atRisk(cause) // a job that a user has stopped does not begin again before the next call
		}
		if len(f.session.log.steps) == 0 { // the state is the kept one
			f.session = nil
			return nil, cause
		}
		if wrong := f.catchUp(ctx); wrong != nil {
			cause = errors.Join(cause, wrong)
		}
		return nil, cause
	}
}

// catchUp brings a job to where it has trained the whole log. It begins the job if none runs.
func (f *feeder) catchUp(ctx context.Context) error {
	for {
		s := f.session
		if s.id == "" {
			if err := f.openJob(ctx); err != nil {
				return err
			}
		}
		err := s.replay(ctx)
		if err == nil {
			return nil
		}
		at, inLog := s.trained, s.trained < len(s.log.steps)
		what, cause := f.look(ctx, err)
		switch {
		case ctx.Err() != nil:
			return err
		case what == left, what == leftTrained, what == lost:
			continue
		case what == failed && inLog && fault.KindOf(cause).Permanent(): // a step that was trained before cannot be trained again
			n := len(s.log.steps) - at
			s.log.drop(at, len(s.log.steps))
			return lostSteps(cause, n)
		case what == failed && !inLog && !fault.IsLost(cause) && s.countLoss(): // because of the step of an earlier call, which was given up
			continue
		}
		return f.atRisk(cause)
	}
}

// openJob begins a fed job with the kept state.
func (f *feeder) openJob(ctx context.Context) error {
	s := f.session
	spec := f.state.spec(f.template, s.program)
	spec.Data, spec.Fed = nil, true
	if spec.State != "" {
		spec.Params = "" // they were the beginning of the first job
	}
	err := absolute(&spec.Save, &spec.Params)
	if err == nil {
		err = s.open(ctx, spec, f.state.now.Steps, f.scaled)
	}
	switch n := len(s.log.steps); {
	case err == nil:
		return nil
	case n == 0:
		f.session = nil
		return err
	case errors.Is(err, fault.NotFound), errors.Is(err, fault.Corrupt): // the listener does not hold the kept state any more, or it is damaged
		f.session = nil
		return lostSteps(err, n)
	case ctx.Err() != nil:
		return err
	}
	return f.atRisk(err)
}

// lostSteps is the error of a call that cannot bring back the last steps of the log.
func lostSteps(err error, steps int) error {
	return fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(err),
		fault.Hintf("%d steps that were fed are lost with their job; the state is that before the first of them", steps))
}

// atRisk is the error of a call that has not brought back the steps of the log.
func (f *feeder) atRisk(err error) error {
	n := len(f.session.log.steps)
	if n == 0 {
		return err
	}
	return fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(err),
		fault.Hintf("%d steps that were fed are lost with their job, unless the next call can feed them again: it tries", n))
}

// settle ends the fed job, if there is one: its state becomes the kept state.
func (f *feeder) settle(ctx context.Context) error {
	for {
		s := f.session
		if s == nil || s.id == "" && len(s.log.steps) == 0 {
			f.session = nil
			return nil
		}
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		status, err := f.client.Finish(ctx, s.id, nil)
		if err == nil {
			f.scaled = status.Trainers
			f.take(ctx, status.Progress)
			f.session = nil
			return nil
		}
		what, cause := f.look(ctx, err)
		switch {
		case what == left && cause != nil: // only the saving of its model has failed
			f.session = nil
			return cause
		case ctx.Err() != nil, what == undecided:
			return err
		case what == failed:
			return f.atRisk(cause)
		}
	}
}

// take makes the state that the job has left the kept one. The log keeps the steps that the job has not trained. take reports whether the state has a
// step more than the log.
func (f *feeder) take(ctx context.Context, p *job.Progress) (more bool) {
	s := f.session
	n := int(max(p.GetSteps(), s.begin) - s.begin)
	more = n > len(s.log.steps)
	s.log.drop(0, min(n, len(s.log.steps)))
	f.state.become(ctx, s.id, p)
	s.closeJob()
	s.begin, s.furthest = p.GetSteps(), 0
	return more
}

// look finds out what has become of the fed job after an error, and notes it. It returns the error with which the job has ended: after left that of
// the saving of its model, which may be nil.
func (f *feeder) look(ctx context.Context, err error) (outcome, error) {
	s := f.session
	status, unknown := lastOf(ctx, f.client, s.id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	known := unknown == nil
	failure := wire.FaultOf(status.GetFailure())
	switch {
	case !known && !errors.Is(unknown, fault.NotFound):
		return undecided, err
	case known && !ended(status.State):
		if !fault.IsLost(err) {
			return undecided, err
		}
		_ = f.client.Stop(ctx, s.id) // it goes on without some steps
		failure = err
	case known && (status.State == job.State_SUCCEEDED || status.Kept):
		f.scaled = status.Trainers
		if f.take(ctx, status.Progress) {
			return leftTrained, err
		}
		if f.template.Save == "" {
			failure = nil
		}
		return left, failure
	}
	if failure == nil {
		failure = err
	}
	f.scaled = status.GetTrainers()
	s.closeJob()
	if (!known || fault.IsLost(failure)) && s.countLoss() { // not known: another listener has taken the place of that of the job
		return lost, failure
	}
	return failed, failure
}

// end ends the fed job. The steps of a job that has failed are fed again only if its model is to be saved: otherwise nobody needs their state.
func (f *feeder) end(ctx context.Context) error {
	s := f.session
	var err error
	switch {
	case f.template.Save != "":
		err = f.settle(ctx)
	case s.id != "":
		var status *job.JobStatus
		if status, err = f.client.Finish(ctx, s.id, nil); err == nil {
			f.take(ctx, status.Progress)
		} else if what, _ := f.look(ctx, err); what != undecided {
			err = nil
		}
	}
	if s.id != "" && s.trained < len(s.log.steps) { // what it would leave is not the state
		discard(ctx, f.client, s.id)
	}
	s.closeJob()
	f.session = nil
	return err
}
