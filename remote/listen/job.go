package listen

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// What a late watcher can still read of the steps of a job.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// Job is one job that a Manager runs.
type Job struct {
	ID      string
	manager *Manager
	spec    *job.JobSpec // without program
	plan    plan
	dir     string // of parameters that were unpacked; empty: none
	events  *history.Log[*job.Event]
	logs    *history.Log[*rpc.LogLine]
	started time.Time
	done    chan struct{}
	manned  chan struct{} // closed when crew is set

	mu       sync.Mutex
	status   *job.JobStatus
	stop     context.CancelCauseFunc
	stopped  bool  // by a user
	crew     *crew // while the job runs
	wanted   int32 // trainers, before there is a crew
	known    known
	next     uint64 // step that comes next
	reported error  // by the coordinator
}

func newJob(m *Manager, id string, spec *job.JobSpec, p *plan) *Job {
	s := proto.Clone(spec).(*job.JobSpec)
	s.Program = nil
	j := &Job{ID: id, manager: m, spec: s, plan: *p,
		events: history.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }), logs: history.New[*rpc.LogLine](maxLogLines),
		started: time.Now(), done: make(chan struct{}), manned: make(chan struct{}), known: newKnown(), wanted: spec.Trainers,
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
	j.status.Seconds = time.Since(j.started).Seconds()
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
