package listen

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// This file is for jobs that are suspended: by a user, or by the queue for a job of a higher priority.
//
//	schedule.Suspend ---> a checkpoint ---> supervise.Suspended: all roles end ---> schedule.Left, WAITING
//	                           |                                                         |
//	                           | none can be made                                        v  schedule.Start
//	                           `--> schedule.Stays                          supervise.Resumed: the next attempt, from the checkpoint
//
// Steps after the checkpoint are trained again, and told as repeated. The job keeps its claim in the registry, its events, and its place in the data folder, also at the
// next listener.

// suspendTime bounds the checkpoint of a job that is to be suspended.
const suspendTime = time.Minute

// A leaving is the wish that a job is suspended.
type leaving struct {
	known chan struct{} // closed when err is set
	err   error         // why the job goes on; nil: it is suspended
}

// maySuspend tells why a job can never be suspended; nil: it can.
func maySuspend(spec *job.JobSpec) error {
	got := ""
	switch {
	case spec.Fed:
		got = "a job that is fed"
	case spec.Checkpoints == nil:
		got = "a job without checkpoints"
	default:
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got(got), fault.Want("one that reads its own data and makes checkpoints (--checkpoint STORE, or a listener with a data folder)"))
}

// suspendJob suspends a job until resumeHeld, and returns when none of its roles is left. A job that waits goes on waiting until then.
func suspendJob(ctx context.Context, j *Job) error {
	where := fault.At("job " + j.ID)
	if err := maySuspend(j.spec); err != nil {
		return fault.E(fault.KindOf(err), where, fault.Cause(err))
	}
	q := j.manager.queue
	if err := q.step(schedule.Hold{ID: j.ID}); err != nil {
		return fault.E(fault.InvalidArgument, where, fault.Got("a job that has ended"), fault.Want("one that waits or runs"))
	}
	noteSuspension(j)
	var l *leaving
	if q.mu.Lock(); q.jobs[j.ID] != nil {
		l = q.jobs[j.ID].leaving
	}
	q.mu.Unlock()
	if l == nil { // it waits
		return nil
	}
	select {
	case <-l.known:
		return l.err
	case <-j.done:
		return fault.E(fault.Unavailable, where, fault.Got("a job that has ended"), fault.Want("one that trains"))
	case <-ctx.Done():
		return fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
}

// resumeHeld lets a job go on that a user has suspended. ok is false for one that is not.
func resumeHeld(j *Job) (ok bool) {
	q := j.manager.queue
	if r, _, waits := q.why(j.ID); !waits || !r.Held {
		return false
	}
	if q.step(schedule.Release{ID: j.ID}) != nil {
		return false
	}
	noteSuspension(j)
	return true
}

// noteSuspension writes in the journal of a job whether a user has suspended it.
func noteSuspension(j *Job) {
	j.telling.Lock()
	defer j.telling.Unlock()
	_ = tell(j, false) // which logs an error
}

// suspensionIn is what the journal says of a job that waits.
func suspensionIn(q *queue, id string) *state.Suspension {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := schedule.Why(q.machine, id); ok && r.Suspension != (schedule.Suspension{}) {
		return &state.Suspension{For: r.For, Held: r.Held}
	}
	return nil
}

// inheritsSuspension reports whether an earlier listener has suspended the job, and had not let it go on.
func inheritsSuspension(j *Job) bool { return ran(j) && j.inherited.Supervision.Suspended }

// suspensionOf is the inverse of suspensionIn.
func suspensionOf(s *state.Suspension) schedule.Suspension {
	return schedule.Suspension{For: s.GetFor(), Held: s.GetHeld()}
}

// answer tells the queue that a job has left, or that it stays because of an error. told tells who has asked for it.
func answer(q *queue, id string, err error) (told func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.jobs[id]
	if x == nil {
		return func() {}
	}
	var e schedule.Event = schedule.Stays{ID: id}
	if err == nil {
		if _, runs := schedule.Takes(q.machine, id); runs { // one that was taken over may have started again
			x.started = make(chan struct{})
		}
		e = schedule.Left{ID: id}
	}
	_ = q.stepLocked(e)
	l := x.leaving
	if x.leaving = nil; l == nil {
		return func() {}
	}
	l.err = err
	return func() { close(l.known) }
}

// suspends carries out what the queue decides about the suspension of a job, until ctx ends.
func suspends(ctx context.Context, c *jobRun) {
	j, q := c.job, c.job.manager.queue
	x := q.of(j.ID)
	for {
		if !isSuspended(c) {
			select {
			case <-x.leaves:
			case <-ctx.Done():
				return
			}
			if err := suspendRoles(ctx, c); err != nil {
				if ctx.Err() != nil {
					return
				}
				j.manager.cfg.Log.Warn("the job is not suspended", "job", j.ID, "error", err)
				answer(q, j.ID, err)()
				continue
			}
		}
		if !awaitLeft(ctx, c) {
			return
		}
		j.withLock(func() { j.countTo(j.reports.saved.GetSteps()) }) // nobody is left to tell the rest, and the checkpoint has it
		clearRun(ctx, c.job)
		told := answer(q, j.ID, nil)
		j.setState(job.State_WAITING, nil)
		told()
		started := startOf(q, x)
		select {
		case <-started:
		case <-ctx.Done():
			return
		}
		if err := planAnew(ctx, j); err != nil && ctx.Err() == nil {
			j.manager.cfg.Log.Warn("the job goes on with the programs of the build that it has begun with", "job", j.ID, "error", err)
		}
		c.happen(func() supervise.Event {
			trainers := c.machine.Trainers()
			if q.grows {
				trainers = q.trainersOf(x)
			}
			return supervise.Resumed{Trainers: trainers}
		})
		if q.grows {
			poke(x.changed) // for the registry
		}
	}
}

// suspendRoles lets a job make a checkpoint, and begins to end its roles.
func suspendRoles(ctx context.Context, c *jobRun) error {
	ctx, cancel := context.WithTimeoutCause(ctx, suspendTime, fault.E(fault.DeadlineExceeded, fault.At("job "+c.job.ID), fault.Gotf("no checkpoint within %v", suspendTime)))
	defer cancel()
	last, err := save(ctx, c.job)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	awaitTold(ctx, c.job, last.GetSteps())
	refused := make(chan error, 1)
	c.happen(func() supervise.Event { // job.mu is held
		if err := supervise.MaySuspend(c.machine); err != nil {
			refused <- fault.E(fault.KindOf(err), fault.At("job "+c.job.ID), fault.Cause(err))
			return supervise.Tick{}
		}
		refused <- nil
		return supervise.Suspended{}
	})
	select {
	case err := <-refused:
		return err
	case <-c.over:
		return fault.E(fault.Unavailable, fault.At("job "+c.job.ID), fault.Got("a job that has ended"))
	}
}

// awaitTold waits until the steps below a number are told. It gives up when limits.LastReports have passed without an event. The steps of a checkpoint are not trained again, and the
// roles that report them are about to end: who follows the job would never hear of the rest.
func awaitTold(ctx context.Context, j *Job, steps uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(j.limits.LastReports, cancel)
	defer quiet.Stop()
	told := func() (all bool) {
		j.withLock(func() { all = j.next >= steps })
		return all
	}
	from := j.events.Next() // before the first look: an event after it is read
	if told() {
		return
	}
	_ = j.events.Read(ctx, from, true, func(uint64, *job.Event) error {
		if told() {
			return io.EOF
		}
		quiet.Reset(j.limits.LastReports)
		return nil
	})
}

// isSuspended reports whether a job waits until it is resumed, or ends its roles before.
func isSuspended(c *jobRun) bool {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	suspended, _ := supervise.IsSuspended(c.machine)
	return suspended
}

// awaitLeft waits until no role of a job is left that is suspended.
func awaitLeft(ctx context.Context, c *jobRun) bool {
	for {
		c.job.mu.Lock()
		suspended, left := supervise.IsSuspended(c.machine)
		decided := c.decided
		c.job.mu.Unlock()
		if suspended && left {
			return true
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return false
		}
	}
}

// startOf returns the channel that is closed when a job may start.
func startOf(q *queue, x *queued) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return x.started
}

// poke wakes who reads a channel.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// goesOnFrom is where a job begins, or goes on that was suspended.
func goesOnFrom(j *Job) *job.Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	if steps := j.reports.queues.GetCheckpoint().GetSteps(); steps > j.state.begin.Steps {
		return &job.Progress{Steps: steps}
	}
	return jobspec.ProgressMessage(j.state.begin)
}

// SuspendJob suspends a job until ResumeJob.
func (s *Server) SuspendJob(ctx context.Context, m *rpc.JobRequest) (*job.JobStatus, error) {
	j, err := acted(ctx, s, m.Job)
	if err == nil {
		err = suspendJob(ctx, j)
	}
	if err != nil {
		return nil, err
	}
	return j.Status(), nil
}
