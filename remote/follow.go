package remote

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Job is a job that was submitted.
type Job struct {
	ID        string
	client    *Client
	fetch     []string
	sync      bool
	ahead     bool                       // the job waits for the acknowledgement of steps
	waits     bool                       // and of evaluations
	evaluated func(*job.Evaluated) error // is told of evaluations; may be nil
	gentle    bool                       // also an error of the follower ends the job in good order, so that its state is kept; its model is not saved
	detached  bool                       // the job goes on without its follower
}

// stopTime bounds the stopping of a job whose follower has given up.
const stopTime = 20 * time.Second

// Follow calls each, which may be nil, with every step from the first on, and returns when the job has ended, with the reason when it failed.
//
// When each returns executor.ErrStop, the job ends in good order, as soon as it can. When it returns another error or panics, or ctx ends, the job is
// stopped.
//
// A job that has lost a pserver starts over: each is called with the steps of the next attempt from the first on, and the summary is that of the last
// attempt. Some steps are counted in the summary, and each is not called: a step whose trainers were all lost before they reported it, one without a
// value that the job fetches, and one that the listener has dropped before it was read, because each is slower than the job.
func (j *Job) Follow(ctx context.Context, each func(executor.StepResult) error) (executor.Summary, error) {
	f := &follower{job: j, each: each}
	unwinds := true
	defer func() {
		if unwinds {
			f.giveUp(ctx)
		}
	}()
	status, err := j.client.watch(ctx, &rpc.JobRequest{Job: j.ID, Follows: j.needsFollower()}, f.acknowledgeAgain(ctx), func(e *job.Event) error { return f.take(ctx, e) })
	unwinds = false
	if errors.Is(err, executor.ErrStop) {
		if status, err = j.client.Finish(ctx, j.ID, f.last); err == nil {
			f.summary.Stopped = true
		}
	}
	if err != nil {
		f.giveUp(ctx)
		return f.summary, err
	}
	f.end(status)
	return f.summary, wire.FaultOf(status.Failure)
}

// giveUp ends the job when its follower does not go on, unless it is detached: in good order where the job is gentle, else at once.
func (f *follower) giveUp(ctx context.Context) {
	if f.job.detached {
		return
	}
	if j := f.job; j.gentle {
		gentle, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		m := &rpc.FinishRequest{Job: j.ID, AfterStep: f.last, WithoutSave: true}
		if _, err := j.client.service.Finish(gentle, m); err == nil {
			return
		}
	}
	f.job.stop(ctx)
}

// stop ends the job before its time. Why this is done tells more than an error of it.
func (j *Job) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	_ = j.client.Stop(ctx, j.ID)
}

// A follower takes the events of a job.
type follower struct {
	job     *Job
	each    func(executor.StepResult) error
	attempt int32
	begin   *job.Progress // of the attempt
	first   int32         // pass of the first step of the attempt; begin may lie behind the end of the pass before it
	done    uint64        // steps of the attempt below it were acknowledged
	judged  uint64        // the evaluation of the attempt after so many steps was acknowledged; 0: none
	resumed bool          // the first step of an attempt was not told, because nothing was fetched in it
	last    *uint64       // number of the step that each is called with, or has ended with, where the job can end right after it
	summary executor.Summary
}

// take takes one event.
func (f *follower) take(ctx context.Context, e *job.Event) error {
	if s := e.GetStatus(); s.GetState() == job.State_STARTING {
		f.attempt, f.begin, f.summary, f.done, f.judged = s.Attempt, s.Progress, executor.Summary{}, 0, 0 // the first attempt, or a new one
	}
	if s := e.GetStatus(); s.GetState() == job.State_WAITING && s.Waiting != "" && f.job.client.notice != nil { // none: it goes on at once
		f.job.client.notice("job " + f.job.ID + " waits for " + s.Waiting)
	}
	if v := e.GetEvaluated(); v != nil {
		return f.takeEvaluated(ctx, v)
	}
	step := e.GetStep()
	if step == nil {
		return nil
	}
	if f.summary.Steps == 0 {
		f.first = step.Pass
	}
	f.summary.Steps = step.Step + 1 - f.begin.GetSteps() // steps are numbered without gaps, though not all are told
	f.summary.Records += step.Rows
	f.summary.Passes = max(f.summary.Passes, int(step.Pass-f.first)+1)
	if f.job.sync {
		f.last = &step.Step
	}
	if err := f.tell(step); err != nil {
		return err
	}
	f.last = nil
	if f.job.ahead {
		f.done = step.Step + 1
		return f.acknowledge(ctx)
	}
	return nil
}

// acknowledgeAgain returns what tells the next listener how far the follower has come, as the one before may not have passed it on.
func (f *follower) acknowledgeAgain(ctx context.Context) func() error {
	return func() error {
		if !f.job.needsFollower() || f.done == 0 && f.judged == 0 {
			return nil
		}
		return f.acknowledge(ctx)
	}
}

// tell calls each.
func (f *follower) tell(step *job.Step) error {
	f.resumed = f.resumed || step.Resumed
	if f.each == nil || len(step.Fetched) < len(f.job.fetch) {
		return nil
	}
	fetched, err := decodeAll(step.Fetched, f.job.fetch)
	if err != nil {
		return err
	}
	var dropped []int
	for _, at := range step.Dropped {
		dropped = append(dropped, int(at))
	}
	resumed := f.resumed
	f.resumed = false
	return f.each(executor.StepResult{Dropped: dropped, Pass: int(step.Pass), Step: step.Step, Rows: step.Rows, Trainers: int(step.Trainers),
		Unreported: step.Unreported, Attempt: int(step.Attempt), Resumed: resumed, Repeated: step.Repeated, Fetched: fetched})
}

// end completes the summary: the listener has heard of all steps that it could, also of those that came after the last one that was told.
func (f *follower) end(s *job.JobStatus) {
	f.summary.Steps, f.summary.Records = s.Steps, s.Records
	if s.Steps > 0 {
		f.summary.Passes = max(f.summary.Passes, int(s.Pass-s.FirstPass)+1)
	}
	f.summary.Elapsed = time.Duration(s.Seconds * float64(time.Second))
}

// decodeAll returns values in the order of names. A step in which nothing was fetched, because it had no rows, gives none.
func decodeAll(values []*job.Value, names []string) ([]*tensor.Tensor, error) {
	if len(values) == 0 {
		return nil, nil
	}
	byName := map[string]*job.Value{}
	for _, v := range values {
		byName[v.Name] = v
	}
	out := make([]*tensor.Tensor, len(names))
	for i, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, fault.E(fault.Internal, fault.Var(name), fault.Gotf("%d fetched values without it", len(values)))
		}
		var err error
		if out[i], err = decode(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decode(v *job.Value) (*tensor.Tensor, error) {
	t, err := tensor.DecodeFile(v.Stream, tensor.Limits{})
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(v.Name), fault.Cause(err))
	}
	return t, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
