package listen

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/protobuf/proto"
)

// What a late watcher can still read of the steps of a job.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// Job is one job that a Manager runs.
type Job struct {
	ID           string
	manager      *Manager
	spec         *job.JobSpec // without program
	limits       jobspec.Deadlines
	plan         plan
	dir          string // of parameters that were unpacked; empty: none
	events       *eventlog.Log[*job.Event]
	logs         *eventlog.Log[*rpc.LogLine]
	began        time.Time
	done         chan struct{}
	rolesStarted chan struct{} // closed when crew is set

	mu       sync.Mutex
	status   *job.JobStatus
	stop     context.CancelCauseFunc
	stopped  bool    // by a user
	roles    *jobRun // while the job runs
	wanted   int32   // trainers, before there is a crew
	reports  reports
	next     uint64 // step that comes next
	reported error  // by the coordinator
}

func newJob(m *Manager, id string, spec *job.JobSpec, p *plan) *Job {
	s := proto.Clone(spec).(*job.JobSpec)
	s.Program = nil
	j := &Job{ID: id, manager: m, spec: s, limits: jobspec.DeadlinesOf(s), plan: *p,
		events: eventlog.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }), logs: eventlog.New[*rpc.LogLine](maxLogLines),
		began: time.Now(), done: make(chan struct{}), rolesStarted: make(chan struct{}), reports: newReports(), wanted: spec.Trainers,
		status: &job.JobStatus{Job: id, State: job.State_PENDING, ProgramHash: p.hash.String(), Mode: spec.Mode, Passes: max(1, spec.Passes),
			Placement: p.loads, Trainers: spec.Trainers}}
	j.plan.user = nil
	return j
}

// Ended reports whether the job has ended.
func (j *Job) Ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Wait blocks until the job has ended, and returns why it failed.
func (j *Job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return wire.FaultOf(j.Status().Failure)
	case <-ctx.Done():
		return fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
}

// Stop ends the job before its time and waits for its roles.
func (j *Job) Stop(ctx context.Context) error {
	j.mu.Lock()
	j.stopped = true
	if j.stop != nil {
		j.stop(fault.New(fault.Canceled, "stopped by the user"))
	}
	j.mu.Unlock()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
}

// run is the life of the job.
func (j *Job) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	j.mu.Lock()
	j.stop = cancel
	if j.stopped {
		cancel(fault.New(fault.Canceled, "stopped by the user"))
	}
	j.mu.Unlock()
	j.setState(job.State_STARTING, nil)
	err := j.runRoles(ctx)
	if wrong := j.removeParams(); wrong != nil {
		j.manager.cfg.Log.Warn("parameters that were unpacked are left behind", "job", j.ID, "error", wrong)
	}
	j.end(err)
}

// end writes the last event.
func (j *Job) end(err error) {
	state := job.State_SUCCEEDED
	j.mu.Lock()
	if err != nil {
		state = job.State_FAILED
		if j.stopped || j.manager.ctx.Err() != nil {
			state = job.State_STOPPED
		}
	}
	j.status.Seconds = time.Since(j.began).Seconds()
	j.mu.Unlock()
	j.plan.release() // a job that has ended is remembered without its programs
	j.setState(state, err)
	j.events.End()
	j.logs.End()
	close(j.done)
}

// roleSpec is what a role is given.
func (j *Job) roleSpec(m cluster.Member, start int) *job.RoleSpec {
	s := &job.RoleSpec{Job: j.ID, Role: m.Role, Index: uint32(m.Index), Spec: j.spec, Program: j.plan.trainer, ProgramHash: j.plan.hash[:],
		Registry: ops.Fingerprint(), Start: uint32(start), Etcd: j.manager.cfg.Etcd, Prefix: cluster.Prefix(j.ID),
		RunDir: j.manager.cfg.RunDir, Advertise: j.manager.cfg.Host, Placement: j.plan.loads}
	switch m.Role {
	case job.Role_PSERVER:
		s.Program = j.plan.pservers[m.Index]
	case job.Role_TRAINER:
		s.SaveProgram = j.plan.save
	}
	return s
}

// Status returns how far the job is.
func (j *Job) Status() *job.JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := proto.Clone(j.status).(*job.JobStatus)
	if !j.Ended() {
		s.Seconds = time.Since(j.began).Seconds()
		s.Paused = j.paused()
	}
	return s
}

// roleStatus returns the entry of a role, making one where it belongs: coordinator, pservers, trainers. j.mu is held.
func (j *Job) roleStatus(m cluster.Member) *job.RoleStatus {
	r := &job.RoleStatus{Role: m.Role, Index: uint32(m.Index)}
	i, ok := slices.BinarySearchFunc(j.status.Roles, r, func(a, b *job.RoleStatus) int {
		if a.Role != b.Role {
			return int(a.Role) - int(b.Role)
		}
		return int(a.Index) - int(b.Index)
	})
	if !ok {
		j.status.Roles = slices.Insert(j.status.Roles, i, r)
	}
	return j.status.Roles[i]
}

// paused says why the job does not go on now, empty when it does. The coordinator knows best, unless it is the one that is missing. j.mu is held.
func (j *Job) paused() string {
	if j.roles == nil {
		return ""
	}
	if _, cause := j.roles.machine.Restarting(); cause != nil {
		return fmt.Sprintf("the job begins again, because parameters are lost: %v", cause)
	}
	roles := j.roles.machine.Roles()
	for _, r := range roles {
		if r.Role != job.Role_TRAINER && r.Lost {
			return fmt.Sprintf("%v has lost its lease", r.Member)
		}
	}
	for _, r := range roles {
		if r.Role != job.Role_TRAINER && r.State == supervise.Down {
			return fmt.Sprintf("%v has ended and is started again: %v", r.Member, r.Last)
		}
	}
	for _, r := range roles {
		if s, silent := j.reports.silent[r.Member]; silent && r.State == supervise.Running {
			return fmt.Sprintf("%v does not answer since %s", r.Member, s.since.Format(time.TimeOnly))
		}
	}
	q := j.reports.queues
	if q == nil || q.Phase == "" || q.Phase == "running" || q.Phase == "ending" {
		return ""
	}
	switch {
	case len(q.Waits) == 0:
		return q.Phase
	case q.Phase == "paused":
		return sentence(q.Waits[0])
	}
	return q.Phase + ": " + sentence(q.Waits[0])
}

// addStep takes over a step, and reports whether it is told on, and is the first after the job began, or began again. One that is known already is
// not: in sync mode a coordinator that was started again may tell the last ones once more. In async mode it counts from what is durable, and its
// steps are numbered on. j.mu is held.
func (j *Job) addStep(step *job.Step) (first, told bool) {
	if j.spec.Mode != job.Mode_SYNC {
		step.Step = j.next
	}
	if step.Step < j.next {
		return false, false
	}
	j.next = step.Step + 1
	first = j.status.State != job.State_RUNNING
	j.status.State = job.State_RUNNING
	j.status.Pass, j.status.Steps = step.Pass, j.next
	j.status.Records += step.Rows
	j.roles.machine.Progress()
	return first, true
}

// miss counts steps that are not told on. In sync mode the number of the next one does. j.mu is held.
func (j *Job) miss(steps uint64) {
	if j.spec.Mode != job.Mode_SYNC {
		j.next += steps
		j.status.Steps = j.next
	}
}

// startOver forgets what the history that has ended had trained, and what its servers have said.
func (j *Job) startOver(cause error, servers ...interface{ forget() }) {
	j.mu.Lock()
	j.status.Steps, j.status.Records, j.status.Pass, j.next, j.reported = 0, 0, 0, 0, nil
	j.reports.forget()
	for _, s := range servers {
		s.forget()
	}
	j.mu.Unlock()
	j.manager.cfg.Log.Warn("the job begins again", "job", j.ID, "because", cause)
	j.setState(job.State_STARTING, nil)
}

// setState enters another state and tells it.
func (j *Job) setState(state job.State, err error) {
	j.mu.Lock()
	j.status.State, j.status.Failure = state, wire.FailureOf(err)
	s := proto.Clone(j.status).(*job.JobStatus)
	j.mu.Unlock()
	j.events.Add(&job.Event{What: &job.Event_Status{Status: s}})
	log := j.manager.cfg.Log.With("job", j.ID, "state", state)
	if err != nil {
		log.Info("job", "error", err)
		return
	}
	log.Info("job")
}

// Show returns all that is known of the job: as its servers say now, or as they said last.
func (j *Job) Show(ctx context.Context) *rpc.JobDetails {
	j.refresh(ctx)
	d := &rpc.JobDetails{Status: j.Status(), Spec: j.spec}
	j.mu.Lock()
	defer j.mu.Unlock()
	d.Queues, d.Ledger = j.reports.queues, j.reports.ledger
	return d
}

// ShowEntries is Show with the durable entries of the coordinator, which there are while the job runs.
func (j *Job) ShowEntries(ctx context.Context) (*rpc.JobDetails, error) {
	j.mu.Lock()
	c := j.roles
	j.mu.Unlock()
	if c == nil {
		return nil, fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that does not run"),
			fault.Want("one that does: its queues are not kept"))
	}
	d := j.Show(ctx)
	ctx, cancel := context.WithTimeout(ctx, j.limits.Entries)
	defer cancel()
	q, err := wire.Queues(ctx, c.peers.coordinator, &rpc.QueuesRequest{Job: j.ID, Entries: true})
	d.Queues = q
	return d, err
}

// Scale changes how many trainers the job wants. The supervisor hears of it through the registry, and so does the coordinator. A job whose roles have
// not been started yet begins with that number.
func (j *Job) Scale(ctx context.Context, trainers int32) error {
	where := "job " + j.ID
	if j.spec.TrainersMax == j.spec.Trainers {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers for a job that always has %d", trainers, j.spec.Trainers),
			fault.Want("an elastic job"), fault.Hint("start it with --trainers MIN:MAX"))
	}
	if trainers < j.spec.Trainers || trainers > j.spec.TrainersMax {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers", trainers),
			fault.Wantf("%d to %d", j.spec.Trainers, j.spec.TrainersMax))
	}
	j.mu.Lock()
	c, starting := j.roles, !j.hasBegun()
	if starting {
		j.wanted, j.status.Trainers = trainers, trainers
	}
	j.mu.Unlock()
	switch {
	case starting:
		return nil
	case c == nil:
		return fault.E(fault.Unavailable, fault.At(where), fault.Got("a job that does not run"))
	}
	return c.registry.SetTrainers(ctx, int(trainers))
}

// hasBegun reports whether the job has had a crew, or will have none. j.mu is held.
func (j *Job) hasBegun() bool {
	select {
	case <-j.rolesStarted:
		return true
	default:
		return j.Ended()
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
