package listen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// Bounds of the end of a job.
const (
	stopGrace  = 3 * time.Second // for roles that are told to stop
	lastWords  = time.Second     // for the reports of others, after a role has failed, to tell the cause
	maxJobStep = 1 << 16         // steps that a late watcher can still read
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

	mu          sync.Mutex
	status      *job.JobStatus
	stop        context.CancelCauseFunc
	stopped     bool              // by a user
	registry    cluster.Registry  // while the job runs
	refused     map[uint32]uint64 // messages, by pserver
	coordinator rpc.CoordinatorClient
	connected   chan struct{} // closed when coordinator is set
	failures    []error       // of roles, in order
	reported    error         // by the coordinator
}

func newJob(m *Manager, id string, spec *job.JobSpec, p *plan) *Job {
	s := proto.Clone(spec).(*job.JobSpec)
	s.Program = nil
	j := &Job{ID: id, manager: m, spec: s, plan: *p, events: history.New[*job.Event](maxJobStep), logs: history.New[*rpc.LogLine](maxLogLines),
		started: time.Now(), done: make(chan struct{}), connected: make(chan struct{}), refused: map[uint32]uint64{},
		status: &job.JobStatus{Job: id, State: job.State_PENDING, ProgramHash: p.hash.String(), Mode: spec.Mode, Passes: max(1, spec.Passes), Placement: p.loads}}
	j.plan.program = nil
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

// Status returns how far the job is.
func (j *Job) Status() *job.JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := proto.Clone(j.status).(*job.JobStatus)
	if !j.Ended() {
		s.Seconds = time.Since(j.started).Seconds()
	}
	return s
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
	if j.dir != "" {
		_ = os.RemoveAll(j.dir)
	}
	j.end(err)
}

// end writes the last event.
func (j *Job) end(err error) {
	state := job.State_SUCCEEDED
	j.mu.Lock()
	if err != nil {
		state = job.State_FAILED
		if j.stopped {
			state = job.State_STOPPED
		}
	}
	j.status.Seconds = time.Since(j.started).Seconds()
	j.mu.Unlock()
	j.setState(state, err)
	j.events.End()
	j.logs.End()
	close(j.done)
}

func (j *Job) setState(state job.State, err error) {
	j.mu.Lock()
	j.status.State, j.status.Failure = state, wire.FailureOf(err)
	s := proto.Clone(j.status).(*job.JobStatus)
	j.mu.Unlock()
	j.events.Add(&job.Event{What: &job.Event_Status{Status: s}})
	j.manager.cfg.Log.Info("job", "job", j.ID, "state", state, "error", err)
}

// runRoles starts every role and waits until all have ended. When one fails, the others have lastWords to tell what they know before they are stopped.
func (j *Job) runRoles(ctx context.Context) error {
	registry, err := j.manager.cfg.Registry(ctx, j.roleSpec(job.Role_COORDINATOR, 0, nil))
	if err != nil {
		return err
	}
	defer registry.Close()
	j.setRegistry(registry)
	defer j.setRegistry(nil)
	if err := registry.SetDesired(ctx, int(j.spec.Pservers)); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		j.watch(watching, registry)
	}()
	defer func() { unwatch(); <-watched }()

	handles, err := j.launchRoles(ctx)
	failed := make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) })
	var waiting sync.WaitGroup
	for i, h := range handles {
		waiting.Go(func() {
			if err := h.Wait(); err != nil {
				j.roleFailed(i, err)
				fail()
				return
			}
			j.roleEnded(i)
		})
	}
	ended := make(chan struct{})
	go func() { waiting.Wait(); close(ended) }()
	if err == nil {
		select {
		case <-ended:
		case <-failed:
		case <-ctx.Done():
		}
		if ctx.Err() == nil {
			settle(ended, watched)
		}
	}
	stopAll(handles)
	<-ended
	if err == nil {
		err = j.cause(ctx)
	}
	return err
}

func (j *Job) setRegistry(r cluster.Registry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.registry = r
}

// settle waits until the roles have ended and their last reports are in, but no longer than lastWords: when one role has failed, the others
// often know why.
func settle(ended, watched <-chan struct{}) {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	for _, done := range []<-chan struct{}{ended, watched} {
		select {
		case <-done:
		case <-timer.C:
			return
		}
	}
}

// stopAll ends the roles that still run, all at the same time.
func stopAll(handles []launch.Handle) {
	var group sync.WaitGroup
	for _, h := range handles {
		group.Go(func() { h.Stop(stopGrace) })
	}
	group.Wait()
}

// launchRoles starts the roles. On an error those that were started are returned too.
func (j *Job) launchRoles(ctx context.Context) ([]launch.Handle, error) {
	specs := []*job.RoleSpec{j.roleSpec(job.Role_COORDINATOR, 0, j.plan.trainer)}
	for i, p := range j.plan.pservers {
		specs = append(specs, j.roleSpec(job.Role_PSERVER, i, p))
	}
	for rank := range int(j.spec.Trainers) {
		s := j.roleSpec(job.Role_TRAINER, rank, j.plan.trainer)
		s.SaveProgram = j.plan.save
		specs = append(specs, s)
	}
	var handles []launch.Handle
	for _, s := range specs {
		name := role.Name(s)
		h, err := j.manager.cfg.Launcher.Start(ctx, s, lineWriter{log: j.logs, role: name})
		if err != nil {
			return handles, err
		}
		handles = append(handles, h)
		j.mu.Lock()
		j.status.Roles = append(j.status.Roles, &job.RoleStatus{Role: s.Role, Index: s.Index, State: job.State_RUNNING, Node: h.Node()})
		j.mu.Unlock()
	}
	return handles, nil
}

func (j *Job) roleSpec(r job.Role, index int, program []byte) *job.RoleSpec {
	return &job.RoleSpec{Job: j.ID, Role: r, Index: uint32(index), Spec: j.spec, Program: program, ProgramHash: j.plan.hash[:], Registry: ops.Fingerprint(),
		Etcd: j.manager.cfg.Etcd, Prefix: cluster.Prefix(j.ID), RunDir: j.manager.cfg.RunDir, Advertise: j.manager.cfg.Host, Placement: j.plan.loads}
}

func (j *Job) roleEnded(i int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status.Roles[i].State = job.State_SUCCEEDED
}

func (j *Job) roleFailed(i int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.status.Roles[i]
	r.State, r.Failure, r.ExitCode = job.State_FAILED, wire.FailureOf(err), int32(fault.KindOf(err).ExitCode())
	j.failures = append(j.failures, err)
}

// cause finds out why the job has failed, nil when it has not. A role that is gone without a word is the cause; else what the coordinator was told, since
// it names the op that failed; else what the first role that failed said.
func (j *Job) cause(ctx context.Context) error {
	if ctx.Err() != nil {
		return &fault.Fault{Kind: fault.Canceled, Where: "job " + j.ID, Err: context.Cause(ctx)}
	}
	j.mu.Lock()
	failures, reported := j.failures, j.reported
	j.mu.Unlock()
	for _, err := range failures {
		if errors.Is(err, fault.LostMember) {
			return j.during(err)
		}
	}
	if reported != nil || len(failures) == 0 {
		return reported
	}
	return failures[0]
}

// during adds to a loss how far the job was.
func (j *Job) during(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	s := j.Status()
	c.Got += fmt.Sprintf(", after %d steps in pass %d", s.Steps, s.Pass)
	return &c
}
