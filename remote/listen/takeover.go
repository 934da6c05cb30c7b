package listen

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// This file is for a listener that goes while its jobs run, however it goes, and for the one after it. The processes of the jobs are those of a launch.Keeper,
// which stays, as does their etcd. What the listener itself knows is in the journal of each job (journal.go, entry.go):
//
//	a decision of supervise, a step, a state   ---> journal ---> it is carried out, or told
//	                                                   |
//	the next listener:   the record and the machine <--'   starts every role again that the machine takes for one that runs: the Keeper
//	                                                       starts a process once, so it finds those that run, and those that have ended
//
// Events and lines of logs have numbers, which stay, so a client goes on with the one after the last that it has. The coordinator keeps steps that no listener has
// read.

// A KeepingLauncher starts roles that outlive the listener. One that an earlier listener has started is the same role: Start returns a handle on it, also when it has ended. Handles
// have a method Leave, which lets the role go on. launch.Kept is one.
type KeepingLauncher interface {
	launch.Launcher
	// Lines calls each with the lines of all roles of a run from a number on. With follow it waits for more until ctx ends or the run is released.
	Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error
	// Release forgets a run. Roles that are left are killed.
	Release(ctx context.Context, run string) error
	// Only releases all runs but these.
	Only(ctx context.Context, runs []string) error
	// Clear gives back what roles of a run that have ended still take. It is called when all have, and the journal says so: none of these starts is asked for again. The log of the run stays.
	Clear(ctx context.Context, run string) error
}

// Keeping is what outlives a listener with its jobs.
type Keeping struct {
	Launcher KeepingLauncher
	Keeper   string // id of what has the roles: a job whose roles have begun goes on only with the same
}

// errHandedOver ends the work of a listener whose jobs go on.
var errHandedOver = fault.New(fault.Canceled, "handed over to the next listener")

func handedOver(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errHandedOver) }

// HandOver is Manager.Close without an end of the jobs: they go on, and the next listener with the same data folder takes them over. A job that is being stopped ends
// before. No job starts after it. It is for a manager with Config.Kept.
func HandOver(m *Manager) error {
	for _, j := range m.Jobs() {
		if !j.Ended() && j.journal == nil {
			askToStop(j, fault.E(fault.Canceled, fault.Got("a job that was "+withListener), fault.Hint(whatNow(j.ID, j.spec)))) // before the others are left
		}
	}
	m.mu.Lock()
	m.cancel(errHandedOver)
	m.mu.Unlock()
	m.group.Wait()
	m.queue.close()
	return m.states.leave()
}

// whileHere is a context for what a client reads of a job: it also ends when the jobs are handed over.
func whileHere(ctx context.Context, m *Manager) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(m.ctx, func() {
		if handedOver(m.ctx) {
			cancel(errHandedOver)
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

// orAway is what a client is told whose stream has ended with this listener: it asks the next one.
func orAway(ctx context.Context, err error) error {
	if handedOver(ctx) {
		return fault.E(fault.Unavailable, fault.Got("a listener that hands its jobs over"), fault.Want("the next one"))
	}
	return err
}

// whatNow is what a user may do about a job that has ended with its listener.
func whatNow(id string, spec *job.JobSpec) string {
	if spec.Checkpoints != nil {
		return "go on from its last checkpoint with \"edl jobs resume " + id + "\", or run it again if it has made none"
	}
	return "run it again"
}

// beginRun makes the journal of a job that begins, or returns why it cannot be written. m.mu is held.
func beginRun(m *Manager, j *Job, kept *state.KeptJob) error {
	if m.cfg.Kept == nil || m.cfg.Data == nil {
		return nil
	}
	kept.Run = j.name
	var err error
	j.journal, err = m.cfg.Data.beginRun(j.ID, &state.RunningJob{Job: kept, Keeper: m.cfg.Kept.Keeper, BeganNs: j.began.UnixNano(), Policy: jobspec.PolicyMessage(j.allowed)})
	if err == nil {
		err = writePrograms(j.journal.dir, &j.plan)
	}
	if err == nil {
		j.telling.Lock()
		defer j.telling.Unlock()
		err = tell(j, false) // from here on the next listener runs the job
	}
	if err != nil {
		j.journal = nil
		forgetRun(m, j.ID)
		return fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that could not outlive this listener"), fault.Cause(err),
			fault.Hint("make room in its data folder, and submit the job again"))
	}
	return nil
}

// forgetRun removes the journal of a job that is not remembered any more. m.mu is held.
func forgetRun(m *Manager, id string) {
	if m.cfg.Kept == nil || m.cfg.Data == nil {
		return
	}
	if err := os.RemoveAll(m.cfg.Data.runFolder(id)); err != nil {
		m.cfg.Log.Warn("the journal of an old job is left", "job", id, "error", err)
	}
}

// ran reports whether an earlier listener has begun to start the roles of the job.
func ran(j *Job) bool { return j.inherited != nil && j.inherited.Supervision != nil }

// leave ends the work of this listener on a job that goes on.
func leave(j *Job) {
	j.telling.Lock()
	defer j.telling.Unlock()
	if j.journal != nil {
		j.journal.close()
	}
	j.manager.cfg.Log.Info("the job goes on without this listener", "job", j.ID)
}

// letGo leaves the roles that run to themselves.
func letGo(c *jobRun) {
	for _, l := range c.running {
		<-l.ready
		if h, ok := l.handle.(interface{ Leave() }); ok {
			h.Leave()
		}
	}
}

// endRun ends the journal of a job that has ended, and lets the keeper forget it.
func endRun(j *Job) {
	if j.manager.cfg.Kept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.limits.Registry)
	defer cancel()
	releaseRun(ctx, j)
	if j.journal == nil {
		return
	}
	j.journal.close()
	if err := writeLines(filepath.Join(j.journal.dir, logFile), j.logs); err != nil {
		j.manager.cfg.Log.Warn("the log of the job will be forgotten with this listener", "job", j.ID, "error", err)
	}
}

// releaseRun reads what is left of the log of a job, ends the roles that are left, and lets the keeper forget it. It may be called again.
func releaseRun(ctx context.Context, j *Job) {
	kept := j.manager.cfg.Kept
	if err := kept.Launcher.Lines(ctx, j.name, j.lines, false, addLine(j)); err != nil {
		j.manager.cfg.Log.Warn("the last lines of the job's log are missing", "job", j.ID, "error", err)
	}
	if err := kept.Launcher.Release(ctx, j.name); err != nil {
		j.manager.cfg.Log.Warn("the keeper remembers a job that has ended", "job", j.ID, "error", err)
	}
}

// clearRun gives back what the roles of a job take that is suspended, and that has no role any more. What cannot be given back now is given back at the end of the job.
func clearRun(ctx context.Context, j *Job) {
	kept := j.manager.cfg.Kept
	if kept == nil {
		return
	}
	j.telling.Lock()
	err := tell(j, true) // a listener that took these roles for running would start them again
	j.telling.Unlock()
	if err != nil {
		return
	}
	clearing, cancel := context.WithTimeout(ctx, suspendTime)
	defer cancel()
	if err := kept.Launcher.Clear(clearing, j.name); err != nil && ctx.Err() == nil {
		j.manager.cfg.Log.Warn("what is left of the roles of a suspended job stays until the job has ended", "job", j.ID, "error", err)
	}
}

// readLines makes what the keeper has of the job's log that of the job, until ctx ends.
func readLines(ctx context.Context, j *Job, from KeepingLauncher) {
	retry(ctx, j, "the log of the job", func() error {
		if err := from.Lines(ctx, j.name, j.lines, true, addLine(j)); err != nil || ctx.Err() != nil {
			return err
		}
		return io.EOF // no role was started yet
	})
}

// recallLines reads what the roles of a job have written so far. It is called before anybody finds the job: a client that goes on after the last line that it has would be told those before it
// again by a log that has them not yet.
func recallLines(ctx context.Context, j *Job) {
	ctx, cancel := context.WithTimeout(ctx, j.limits.Registry)
	defer cancel()
	if err := j.manager.cfg.Kept.Launcher.Lines(ctx, j.name, j.lines, false, addLine(j)); err != nil {
		j.manager.cfg.Log.Info("the log of the job comes later", "job", j.ID, "error", err)
	}
}

// addLine returns what appends the next line to the log of the job. Only one goroutine at a time reads lines.
func addLine(j *Job) func(*rpc.LogLine) {
	return func(l *rpc.LogLine) {
		j.logs.Skip(l.Number)
		j.logs.Add(l)
		j.lines = l.Number + 1
	}
}

// TakeOver goes on with the jobs that earlier listeners with this data folder have left, and remembers those that have ended. What others have begun with is removed. It is called before
// the first Start.
func TakeOver(ctx context.Context, m *Manager) error {
	begins := leftBegins(m)
	if m.cfg.Kept == nil || m.cfg.Data == nil {
		removeBegins(m, begins)
		return nil
	}
	if err := m.states.recall(); err != nil {
		return err
	}
	left, torn, err := m.cfg.Data.leftRuns()
	if err != nil {
		return err
	}
	for _, l := range torn {
		m.cfg.Log.Warn("a job of an earlier listener is lost, and its roles are ended: what it did could not be written", "job", l.id)
		_ = m.cfg.Kept.Launcher.Release(ctx, l.Job.Run)
		forgetRun(m, l.id)
	}
	var runs []string
	var wait []func() // to be begun after the jobs that run, which have their places in the queue
	for _, l := range left {
		later, err := takeOver(ctx, m, l)
		if later != nil {
			wait = append(wait, later)
		}
		if err != nil {
			m.cfg.Log.Warn("a job of an earlier listener is lost", "job", l.id, "error", err)
			_ = m.cfg.Kept.Launcher.Release(ctx, l.Job.Run)
		} else {
			runs = append(runs, l.Job.Run)
		}
	}
	if err := m.cfg.Kept.Launcher.Only(ctx, runs); err != nil {
		m.cfg.Log.Warn("roles may be left of jobs that nobody knows", "error", err)
	}
	removeBegins(m, begins)
	m.states.sweep()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, begin := range wait {
		begin()
	}
	m.forget("", 0) // the earlier listener may have remembered more
	return nil
}

// An inheritance is what an earlier listener has written of a job: the last of each part.
type inheritance struct {
	*state.JobRecord
	events []*job.Event
	first  uint64 // number of the first of them
}

// read reads the journal of a job.
func (l leftRun) read() (*inheritance, error) {
	h := &inheritance{JobRecord: &state.JobRecord{}}
	known := false
	bytes := 0
	err := l.journal.read(func(r *state.JobRecord) {
		if !known || r.Number != h.first+uint64(len(h.events)) {
			h.first, h.events, known, bytes = r.Number, nil, true, 0
		}
		h.events = append(h.events, r.Events...)
		for bytes += proto.Size(r); bytes > maxEventBytes && len(h.events) > 1; {
			bytes -= proto.Size(h.events[0])
			h.first, h.events = h.first+1, h.events[1:]
		}
		before := h.JobRecord
		h.JobRecord = r
		r.Events = nil
		if r.Position == nil {
			r.Position = before.Position
		}
		if r.Supervision == nil {
			r.Supervision = before.Supervision
		}
		if r.Owed == nil {
			r.Owed = before.Owed
		}
		if r.Begin == nil {
			r.Begin = before.Begin
		}
		restore(r, before)
	})
	if err == nil && h.Status == nil {
		err = fault.E(fault.NotFound, fault.At(l.journal.dir), fault.Got("a job that had not begun"))
	}
	return h, err
}

// takeOver goes on with one job. If no role of it was started, it returns what begins it, with m.mu held.
func takeOver(ctx context.Context, m *Manager, l leftRun) (later func(), _ error) {
	h, err := l.read()
	if err != nil {
		return nil, err
	}
	ended := h.Status.State == job.State_SUCCEEDED || h.Status.State == job.State_FAILED || h.Status.State == job.State_STOPPED
	spec := proto.CloneOf(l.Job.Spec)
	p := &plan{}
	if !ended {
		if err = mayGoOn(m, l, h, spec); err == nil {
			spec.Pservers = cmp.Or(h.Supervision.GetPservers(), h.Pservers)
			if h.Supervision != nil {
				p, err = planOfRun(ctx, l.id, l.journal.dir, spec)
			} else if p, err = newPlan(ctx, spec); err == nil {
				err = writePrograms(l.journal.dir, p)
			}
		}
	}
	begin := stateOf(h.Begin)
	switch {
	case err != nil || ended:
	case l.Keeper != m.cfg.Kept.Keeper:
		var again *jobState
		if again, err = beginAgain(ctx, m, l, spec, p); err == nil {
			begin = again
		}
	default:
		if spec.Save != "" && launch.Here(m.cfg.Launcher) {
			allowed := jobspec.PolicyOf(l.Policy).Guard(m.cfg.Allowed.Guarded...)
			begin.saves, _ = executor.FilesOf(policy.With(ctx, allowed)).Hold(spec.Save) // the job goes on also where another process writes there by now: what it has trained counts
		}
		err = m.states.inherit(begin, l.Job.Owner, l.id, spec, h.Begin.GetKeep())
	}
	if err != nil || ended {
		p = &plan{}
	}
	j := newJob(m, l.id, l.Job.Spec, p, begin)
	j.name, j.continues, j.began, j.journal = l.Job.Run, l.Job.Continues, time.Unix(0, l.BeganNs), l.journal
	j.owner, j.allowed = l.Job.Owner, jobspec.PolicyOf(l.Policy).Guard(m.cfg.Allowed.Guarded...)
	inherit(j, h)
	if err == nil && !ended && h.Supervision != nil {
		recallLines(ctx, j)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	enter(m, j)
	switch {
	case ended:
		_ = readLinesOf(filepath.Join(l.journal.dir, logFile), addLine(j))
		l.journal.close()
		j.written = bytesBelow(l.journal.dir)
		j.events.End()
		j.logs.End()
		close(j.done)
	case err != nil:
		m.group.Go(func() {
			abandon(m.ctx, j)
			j.end(err)
			noteEnd(m, j)
		})
	default:
		j.placing.now.number, j.placing.numbers = h.Placement, h.Placements
		m.cfg.Log.Info("the job goes on with this listener", "job", l.id, "steps", h.Status.Steps)
		j.inherited = h
		now := m.queue.jobOf(j)
		if !ran(j) || h.Supervision.Suspended {
			return func() { goOnWith(m, j, schedule.Waited{Job: now, Suspension: suspensionOf(h.Suspension)}) }, nil
		}
		goOnWith(m, j, schedule.Runs{Job: now, Trainers: int(h.Supervision.Wanted)})
	}
	return nil, nil
}

// abandon ends the roles of a job that does not go on with this listener, and removes what the registry has of them: the job may be resumed as soon as its end is told.
func abandon(ctx context.Context, j *Job) {
	ctx, cancel := context.WithTimeout(ctx, j.limits.Registry)
	defer cancel()
	releaseRun(ctx, j)
	registry, err := j.manager.cfg.Registry(ctx, j.roleSpec(cluster.Member{Role: job.Role_COORDINATOR}, 0))
	if err == nil {
		defer registry.Close()
		var owner cluster.Membership
		if owner, err = claimSoon(ctx, registry); err == nil {
			removeTraces(ctx, j, registry, owner)
		}
	}
	if err != nil {
		j.manager.cfg.Log.Warn("traces of the job are left in the registry until a listener starts", "job", j.ID, "error", err)
	}
}

// claimSoon claims the name of a job whose listener was killed: as soon as its lease has ended, unless another listener of the cluster has the name by then.
func claimSoon(ctx context.Context, of cluster.Registry) (cluster.Membership, error) {
	look := time.NewTicker(retryPause)
	defer look.Stop()
	for {
		owner, err := of.Claim(ctx)
		if !errors.Is(err, fault.Fenced) {
			return owner, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// goOnWith begins a job that was taken over, at its place in the queue. m.mu is held.
func goOnWith(m *Manager, j *Job, place schedule.Event) {
	if err := m.queue.enter(j.ID, place); err != nil {
		m.group.Go(func() {
			j.end(err)
			noteEnd(m, j)
		})
		return
	}
	beginJob(m, j)
}

// beginAgain makes ready what a job starts with whose roles were never started: what the earlier listener had made ready has gone with its keeper. From here on the
// job is one of the keeper that there is now.
func beginAgain(ctx context.Context, m *Manager, l leftRun, spec *job.JobSpec, p *plan) (*jobState, error) {
	allowed := jobspec.PolicyOf(l.Policy).Guard(m.cfg.Allowed.Guarded...)
	if beginsWithOurs(m, allowed, spec, l.Job.Continues) { // as when it was submitted
		allowed = allowed.Also(m.cfg.Data.jobs())
	}
	ctx = policy.With(ctx, allowed)
	begin, err := m.openState(ctx, l.id, spec, p.user)
	if err == nil {
		if begin.keep != nil {
			begin.keep.owner = l.Job.Owner
		}
		l.Keeper = m.cfg.Kept.Keeper
		err = m.cfg.Data.writeRun(l.id, l.RunningJob)
	}
	return begin, err
}

// mayGoOn is why a job that has not ended cannot go on with this listener. One whose roles were never started does not need the keeper that would have had them.
func mayGoOn(m *Manager, l leftRun, h *inheritance, spec *job.JobSpec) error {
	where := fault.At("job " + l.id)
	switch {
	case l.Keeper != m.cfg.Kept.Keeper && h.Supervision != nil:
		return fault.E(fault.LostMember, where, fault.Got("the end of the listener, and of the keeper of its processes"), fault.Want("a keeper that outlives it"),
			fault.Hint(whatNow(l.id, spec)))
	case spec.KeepState && h.Begin.GetKeep() == "":
		return fault.E(fault.LostMember, where, fault.Got("the end of the listener of a job whose state an earlier build has kept for its caller"), fault.Want("a state that this build has kept"),
			fault.Hint(whatNow(l.id, spec)))
	}
	return nil
}

// inherit makes the record of a job what an earlier listener has written.
func inherit(j *Job, h *inheritance) {
	j.status = h.Status
	j.begin, j.next, j.told = j.state.begin.Steps, h.Next, h.Told
	j.datasets = j.state.datasets
	j.number = h.first + uint64(len(h.events))
	j.events.Skip(h.first)
	j.events.Add(h.events...)
	for _, w := range h.Wishes {
		j.finishing.wishes, j.finishing.after, j.finishing.withoutSave, j.finishing.promised = 1, w.AfterStep, w.WithoutSave, w.Promised
		j.finishing.tell()
	}
	j.followers.seen = time.Now()
}

// inheritRoles makes the supervision of a job what an earlier listener has written. job.mu is held.
func inheritRoles(c *jobRun, h *inheritance) error {
	w, now := c.watcher, time.Duration(h.Supervision.GetNow())
	w.history, w.fence, w.next = h.Position.GetHistory(), h.Position.GetFence(), h.Position.GetNext()
	if h.Position.GetAll() {
		close(w.all)
	}
	if h.Owed != nil {
		c.owed = h.Owed
	}
	c.began = time.Now().Add(-max(now, time.Since(c.job.began))) // the clock of the machine goes on
	machine, err := supervise.Restore(policyOf(c.job), h.Supervision)
	if err == nil {
		c.machine = machine
	}
	return err
}

// goOn does again what an earlier listener may not have done.
func goOn(ctx context.Context, c *jobRun) supervise.Effects {
	c.job.mu.Lock()
	processes, again, moving, owed := supervise.Processes(c.machine), supervise.Again(c.machine), supervise.Changing(c.machine), proto.CloneOf(c.owed)
	c.job.mu.Unlock()
	for m, process := range processes {
		follow(ctx, c, m, process, true)
	}
	if owed.Back != nil {
		c.went = owed.Back
		c.wentBack()
	}
	if ended, err := c.carryOut(ctx, again); ended {
		return supervise.Effects{End: true, Err: err}
	}
	return c.step(func() supervise.Event {
		if moving > 0 {
			return supervise.Moved{Number: moving, Unknown: true,
				Err: fault.E(fault.LostMember, fault.At("job "+c.job.ID), fault.Got("the end of the listener while the number of pservers was changing"))}
		}
		return supervise.Tick{}
	})
}
