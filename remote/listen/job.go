package listen

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/wire"
)

// Bounds of the events of a job that are kept for watchers who come late.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// Job is one job that a Manager runs.
type Job struct {
	ID           string
	name         string         // of its checkpoints
	continues    string         // the job that it resumes; empty: none
	owner        string         // the user who has submitted it
	allowed      *policy.Policy // of the files that roles open; nil: all
	manager      *Manager
	spec         *job.JobSpec // without program
	limits       jobspec.Deadlines
	plan         plan // of the first placement
	needs        needs
	state        *jobState
	acks         *acknowledgements
	finishing    *finishing
	followers    *followers
	events       *eventlog.Log[*job.Event]
	logs         *eventlog.Log[*rpc.LogLine]
	began        time.Time
	done         chan struct{}
	rolesStarted chan struct{} // closed when roles is set
	inherited    *inheritance  // what an earlier listener has left of a job that runs; nil: this listener has begun it
	written      int64         // bytes in the data folder of a job that has ended; guarded by the mutex of the manager

	telling  sync.Mutex     // held while the record changes and this is written and told; before mu
	journal  *journal       // nil: the job ends with its listener
	number   uint64         // of the next event; guarded by telling
	last     *job.JobStatus // what shorten compares the next record with; guarded by telling
	lines    uint64         // number of the next line of the log; of who reads lines
	newBegin bool           // the journal does not have what the attempt starts with; guarded by mu

	record
	placing placing                 // guarded by mu
	stop    context.CancelCauseFunc // guarded by mu
	stopped error                   // why it was stopped, by a user or because it cannot outlive its listener; nil: it was not; guarded by mu
	resumes resumption              // guarded by mu
}

func newJob(m *Manager, id string, spec *job.JobSpec, p *plan, state *jobState) *Job {
	s := proto.Clone(spec).(*job.JobSpec)
	s.Program, s.Params = nil, state.params
	j := &Job{ID: id, name: newRun(id), manager: m, spec: s, limits: jobspec.DeadlinesOf(s), plan: *p, state: state,
		events: eventlog.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }), logs: launch.NewLog(),
		began: time.Now(), done: make(chan struct{}), rolesStarted: make(chan struct{}),
		record: record{reports: newReports(), profiled: spec.ProfileSteps > 0, wanted: spec.Trainers, begin: state.begin.Steps, next: state.begin.Steps, datasets: state.datasets,
			status: &job.JobStatus{Job: id, State: job.State_PENDING, ProgramHash: p.hash.String(), Mode: spec.Mode,
				Passes: int32(state.first) + max(1, spec.Passes), Placement: p.loads, Trainers: spec.Trainers,
				FirstPass: int32(state.begin.Pass), CompletePasses: int32(state.begin.Pass), EarlierSteps: state.begin.Steps, EarlierRecords: state.earlier,
				Progress: jobspec.ProgressMessage(state.begin), Labels: spec.Labels, Priority: spec.Priority, SubmittedMs: time.Now().UnixMilli()}}}
	j.acks, j.finishing, j.followers = newAcknowledgements(j), newFinishing(j), newFollowers(j)
	if p.user != nil {
		j.needs = needsOf(s, p)
	}
	j.plan.user, j.plan.judges = nil, nil
	j.placing.now = &placement{plan: &j.plan}
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
	askToStop(j, fault.New(fault.Canceled, "stopped by the user"))
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
}

// askToStop is Stop without waiting. The reason counts of whoever asks first.
func askToStop(j *Job, why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped == nil {
		j.stopped = why
	}
	if j.stop != nil {
		j.stop(j.stopped)
	}
}

// coordinator returns the job's coordinator, waiting until the roles are started. When the job has ended, the error says why.
func (j *Job) coordinator(ctx context.Context) (rpc.CoordinatorClient, error) {
	select {
	case <-j.rolesStarted:
	case <-j.done:
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
	j.mu.Lock()
	c := j.roles
	j.mu.Unlock()
	if c != nil {
		return c.peers.coordinator, nil
	}
	if err := j.Wait(ctx); err != nil { // its roles have ended, and soon it is known why
		return nil, err
	}
	return nil, fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that has ended"))
}

// identityOf returns the identity of the job's messages.
func identityOf(j *Job) *rpc.Identity {
	return wire.Identity{Job: j.ID, Program: j.plan.hash[:]}.Of(0, 0, 0)
}

// run runs the job to its end.
func (j *Job) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(policy.With(ctx, j.allowed))
	defer cancel(nil)
	j.mu.Lock()
	j.stop = cancel
	if j.stopped != nil {
		cancel(j.stopped)
	}
	j.mu.Unlock()
	err := j.manager.queue.await(ctx, j)
	if err == nil {
		if !inheritsSuspension(j) && (isIn(j, job.State_PENDING) || isIn(j, job.State_WAITING)) {
			j.setState(job.State_STARTING, nil)
		}
		err = runRoles(ctx, j)
	}
	if handedOver(ctx) && !wasStopped(j) {
		j.state.saves.Release() // for the next listener
		leave(j)
		return
	}
	if err == nil || !j.isStopped() {
		p, wrong := j.state.finish(err != nil)
		if p != nil {
			j.withLock(func() { j.status.Progress, j.status.Kept = p, true })
		}
		err = cmp.Or(err, wrong, j.followers.abandoned())
	}
	if wrong := j.state.close(); wrong != nil {
		j.manager.cfg.Log.Warn("files of the job are left behind", "job", j.ID, "error", wrong)
	}
	j.end(err)
}

// isIn reports whether a job is in a state.
func isIn(j *Job, state job.State) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status.State == state
}

// wasStopped reports whether the job was stopped, and not by the end of the listener alone.
func wasStopped(j *Job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped != nil
}

// isStopped reports whether a user, or the end of the listener, has stopped the job.
func (j *Job) isStopped() bool {
	stopping := j.manager.ctx.Err() != nil && !j.manager.failing()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped != nil || stopping
}

// end writes the last event.
func (j *Job) end(err error) {
	state, stopped := job.State_SUCCEEDED, j.isStopped()
	j.mu.Lock()
	if err != nil {
		state = job.State_FAILED
		if stopped {
			state = job.State_STOPPED
		} else if fault.KindOf(err) == fault.Canceled { // nobody has interrupted it: a role was, by what befell another one
			err = fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Cause(err))
		}
	}
	j.status.Seconds, j.status.EndedMs = time.Since(j.began).Seconds(), time.Now().UnixMilli()
	j.mu.Unlock()
	if j.manager.cfg.Data != nil && state == job.State_SUCCEEDED && !keepsLast(j) {
		if err := j.manager.cfg.Data.remove(j.ID, j.manager.runs); err != nil {
			j.manager.cfg.Log.Warn("data of the job are left", "job", j.ID, "error", err)
		}
	}
	j.withLock(func() { // the manager remembers a job without its programs
		j.placing.release()
		j.plan.release()
	})
	if state == job.State_SUCCEEDED && !j.spec.Fed {
		j.withLock(func() {
			if j.finishing.wishes == 0 { // the data has ended the job, and no user
				j.status.CompletePasses = j.status.Passes
			}
		})
	}
	j.setState(state, err)
	rememberEnd(j.manager, j)
	endRun(j)
	j.manager.queue.left(j.ID)
	note(j.manager, auditLine{Method: "end", Job: j.ID, Program: j.plan.hash.String(), Outcome: strings.ToLower(state.String())})
	j.events.End()
	j.logs.End()
	close(j.done)
}

// roleSpec is what a role is given.
func (j *Job) roleSpec(m cluster.Member, start int) *job.RoleSpec {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.placing.of(m)
	by := p.plan.maker
	s := &job.RoleSpec{Job: j.ID, Role: m.Role, Index: uint32(m.Index), Spec: p.spec(j.spec), Program: p.plan.trainer, ProgramHash: j.plan.hash[:],
		Protocol: by.protocol, Build: by.build, Registry: by.registry, Ops: by.ops, Start: uint32(start), Etcd: j.manager.cfg.Etcd, Prefix: cluster.Prefix(j.ID),
		Lingers: j.manager.cfg.Kept != nil, RunDir: j.manager.cfg.RunDir, Advertise: j.manager.cfg.Host, ClearData: j.manager.cfg.ClearData, TraceRounds: j.manager.cfg.TraceRounds, Placement: p.plan.loads, CheckpointRun: j.name, CheckpointOrigins: j.state.origins,
		Placed: &job.Placement{Number: p.number, Pservers: int32(len(p.plan.pservers))}}
	switch m.Role {
	case job.Role_COORDINATOR:
		s.SaveProgram = p.plan.save
		s.Next = j.placing.next.message()
		s.Datasets, _ = proto.Marshal(&state.Datasets{Datasets: j.datasets}) // only invalid UTF-8 is an error; a path has none
	case job.Role_PSERVER, job.Role_STANDBY:
		s.Program = p.plan.pservers[m.Index]
		if p == j.placing.next {
			s.Placed.Before, s.Placed.Follows = p.before, p.after
		}
	case job.Role_TRAINER:
		s.SaveProgram = p.plan.save
	}
	s.Node, s.Needs = j.manager.queue.nodeFor(j, m), needsMessage(j.needs.of(m, j.spec.Standby))
	s.PlannedMemory = j.needs.planned(m, p.plan)
	s.Bounds = jobspec.Bounds(s, j.manager.cfg.Cores > 0, j.manager.cfg.Memory > 0)
	j.state.give(s)
	s.Policy = jobspec.PolicyMessage(j.allowed.Also(s.StateDir, s.KeepDir, j.state.unpacked))
	return s
}

// Status returns how far the job is.
func (j *Job) Status() *job.JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return statusOf(j)
}

// statusOf is Status where mu is held. It counts the steps of the last checkpoint also where they are not told yet.
func statusOf(j *Job) *job.JobStatus {
	s := proto.Clone(j.status).(*job.JobStatus)
	if saved := j.reports.queues.GetCheckpoint().GetSteps(); saved > s.EarlierSteps+s.Steps {
		s.Steps = saved - s.EarlierSteps
	}
	if !j.Ended() {
		s.Seconds = time.Since(j.began).Seconds()
		s.Paused = j.paused()
		j.manager.queue.tell(s)
		if s.Paused == "" && (s.State == job.State_STARTING || s.State == job.State_RUNNING) {
			s.Waiting = dry(&j.record)
		}
	}
	return s
}

// startOver begins the next attempt of the job. mu is held.
func (j *Job) startOver(servers ...interface{ forget() }) {
	j.newBegin, j.status.State = true, job.State_STARTING
	j.record.startOver(jobspec.ProgressMessage(j.state.restart), j.state.records())
	j.reports.saved = j.state.last // the coordinator of the attempt does not know it
	for _, s := range servers {
		s.forget()
	}
}

// wentBack begins the next attempt of the job where a checkpoint was made. Its processes stay. mu is held.
func wentBack(j *Job, p *job.Progress, records int64, servers ...interface{ forget() }) {
	j.status.State = job.State_STARTING
	j.record.goBack(p, records-j.state.earlier)
	if j.reports.saved.GetSteps() > p.GetSteps() { // it was damaged, and an older one was taken
		j.reports.forgetSaved()
	}
	for _, s := range servers {
		s.forget()
	}
}

// setState enters another state and tells it.
func (j *Job) setState(state job.State, err error) {
	j.telling.Lock()
	j.mu.Lock()
	j.status.State, j.status.Failure = state, wire.FailureOf(err)
	s := proto.Clone(j.status).(*job.JobStatus)
	j.manager.queue.tell(s)
	j.mu.Unlock()
	_ = tell(j, false, &job.Event{What: &job.Event_Status{Status: s}})
	j.telling.Unlock()
	log := j.manager.cfg.Log.With("job", j.ID, "state", state)
	if err != nil {
		log.Info("job", "error", err)
		return
	}
	log.Info("job")
}

// Show returns all that is known of the job. It asks the servers that run; of the others it has the last report.
func (j *Job) Show(ctx context.Context) *rpc.JobDetails {
	j.refresh(ctx)
	return known(j)
}

// known is what is known of a job without asking anybody. The listener asks the servers of a job that runs once in limits.ProbeEvery anyway.
func known(j *Job) *rpc.JobDetails {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := &rpc.JobDetails{Status: statusOf(j)}
	d.Spec = j.placing.now.spec(j.spec)
	d.Queues, d.Ledger, d.Tables = j.reports.queues, j.reports.ledger, j.reports.tables(len(j.placing.now.pservers))
	return d
}

// programsOf returns the programs of a job that runs; nil after its end.
func programsOf(j *Job) *rpc.Programs {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.placing.now
	if now == nil || len(j.plan.encoded) == 0 {
		return nil
	}
	return &rpc.Programs{User: j.plan.encoded, Trainer: now.plan.trainer, Pservers: now.plan.pservers}
}

// ShowEntries is Show with the durable entries of the coordinator. There are none when the job does not run.
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

// Scale changes how many trainers the job wants. The supervisor and the coordinator hear of it through the registry. If the roles are not started
// yet, the job begins with that number.
func (j *Job) Scale(ctx context.Context, trainers int32) error {
	where := "job " + j.ID
	if j.spec.TrainersMax == j.spec.Trainers && j.Ended() {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Got("a job that has ended"), fault.Want("one that waits or runs"))
	}
	if j.spec.TrainersMax == j.spec.Trainers {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers for a job that always has %d", trainers, j.spec.Trainers),
			fault.Want("an elastic job"), fault.Hint("start it with --trainers MIN:MAX"))
	}
	if trainers < j.spec.Trainers || trainers > j.spec.TrainersMax {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers", trainers),
			fault.Wantf("%d to %d", j.spec.Trainers, j.spec.TrainersMax))
	}
	if j.manager.queue.grows && !j.Ended() {
		return j.manager.queue.step(schedule.Asked{ID: j.ID, Most: int(trainers)})
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

// hasBegun reports whether the roles were started, or never will be. j.mu is held.
func (j *Job) hasBegun() bool {
	select {
	case <-j.rolesStarted:
		return true
	default:
		return j.Ended()
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
