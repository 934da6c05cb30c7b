// Package listen is RemoteExecutor.listen: the server that takes jobs and runs them.
//
// A Manager takes a JobSpec with a program. It verifies and transpiles the program, starts coordinator, pservers and trainers through a launcher, and
// follows them to their end. It keeps the events, the log and the status of the job, with the last reports of its servers. Server is the gRPC service
// over a Manager. Package supervise decides what happens when a role ends; most roles are started again.
//
// Its files in reading order:
//
//   - manager.go: Manager, the jobs of a listener; server.go: Server, its calls; access.go: who may make them; budget.go: how many; upload.go: what arrives in pieces; audit.go: what is noted of them; allowed.go: what jobs may read and write
//   - journal.go: what is written of a job that runs; takeover.go: a listener that goes, and the one after it that goes on with its jobs
//   - data.go: Data, what outlives a listener: jobs that can be resumed, and their checkpoints; recall.go: those jobs are listed; checkpoints.go: from a checkpoint to the start of an attempt
//   - plan.go: from a JobSpec to role programs; programs.go: those of a job that another build has begun; jobstate.go: what a job starts with and leaves; states.go: the states that the listener holds between jobs; lasting.go: those that outlive it
//   - job.go: Job, its calls; finish.go: its end in good order; record.go: what is known of a job; history.go: the jobs that have ended
//   - queue.go: queue, which jobs wait and which run; needs.go: what roles take; bounds.go: what jobs may take of time and disk; nodes.go: the machines that they share
//   - run.go: jobRun, the roles of a job and the reason of its end; roles.go: one role, from start to end; scale.go: another number of pservers; wishes.go: such a change that waits
//   - watch.go: events of the coordinator, final reports, acknowledgements; followers.go: whether somebody acknowledges; servers.go: regular reports of the servers; why.go: what the job waits for; times.go: where
//     the time of rounds went
//
// # A job
//
//	PENDING ---> STARTING ----------------> RUNNING ----------------> SUCCEEDED   every role has ended well
//	                ^     the first step      |    \
//	                |                         |     `-------------> FAILED      the error says why
//	                `-------------------------'                     STOPPED     by a user, or with the listener
//	                 the job starts over: the next attempt
//
//	PENDING    Programs are ready, and the state that the job starts with is in use. No role runs.
//	WAITING    The same, and other jobs have the cores or the memory that it needs. It goes on to STARTING.
//	STARTING   Roles are started. No step of this attempt is told.
//	RUNNING    Each step of the attempt is told once, in order. Steps that an earlier attempt has told are marked as repeated.
//	at the end No role of the job runs, the registry has nothing of it, and its state is kept if keep_state says so.
package listen

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// Config is what a Manager works with.
type Config struct {
	// Registry opens the handle of a job's members; the manager uses one per job. Launched roles open their own.
	Registry      func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error)
	Launcher      launch.Launcher
	Etcd          []string              // endpoints that roles are given; empty when they share the process's registry
	EtcdAuthority *credential.Authority // issues what etcd asks roles for; nil: etcd asks for what the environment says
	Host          string                // on which roles listen; empty: 127.0.0.1
	ClearData     bool                  // gradients and parameters of jobs may travel between machines in clear text
	RunDir        string                // scratch directory of an embedded cluster, which roles help to remove; empty: none
	MaxRoles      int                   // of all jobs that have not ended; 0: 1024
	Cores         int64                 // thousandths of cores that jobs share; 0: they are not counted
	Memory        int64                 // bytes that jobs share; 0: they are not counted
	Node          string                // name of this machine, among the nodes; empty: that of the system
	Spread        bool                  // roles run on nodes, which SetNodes names, and not on this machine
	Sharing       schedule.Policy       // how they share; the zero value: schedule.DefaultPolicy
	MaxJobs       int                   // jobs of each namespace that are remembered, when the oldest have ended; 0: 100
	MaxJobBytes   int64                 // of jobs that have ended, in the data folder; 0: 4 GiB
	MaxTime       time.Duration         // for which each job may run, without the time in which it waits or is suspended; 0: without bound
	TraceRounds   uint64                // roles tell the listener of each round whose number is a multiple of this; 0: of none
	MaxDisk       int64                 // bytes that each job may have in the data folder, with its checkpoints there; 0: without bound
	// StateDir is the directory for kept states; empty: RunDir, else the directory for temporary files. With Kept and Data they are in the folder "kept" there, or of the data
	// folder, and outlive the listener: no other listener may have the same directory. If roles run on other machines, they must reach it under the same path.
	StateDir      string
	MaxStates     int                   // of each namespace that are held at a time; 0: 100
	MaxStateBytes int64                 // of all of them together; 0: 64 GiB
	Allowed       Allowed               // what jobs may read and write
	Authority     *credential.Authority // issues the credentials of listener and roles; nil: they have none, and ask for none
	Tokens        *credential.Tokens    // for which users have got certificates: such a certificate counts as long as its token does; nil: none counts
	// Issuer is whose tokens count, and with them those of Tokens, where a call shows no certificate: Bearer. nil: each caller shows one.
	Issuer credential.Issuer
	// CredentialLife is how long the credentials are valid that the authorities issue for the listener and roles; others take their place in time. 0: CredentialLife.
	CredentialLife time.Duration
	Kept           *Keeping // what outlives the listener with the jobs; nil: they end with it
	Data           *Data    // for jobs that are resumed, and for checkpoints of jobs that name no place; nil: none. The caller closes it
	Log            *slog.Logger
}

// Manager runs jobs. Close ends them all.
type Manager struct {
	cfg    Config
	ctx    context.Context // of all jobs
	cancel context.CancelCauseFunc
	group  sync.WaitGroup

	states *states
	queue  *queue
	budget budget
	plans  chan struct{} // a place for each program that is made ready

	mu     sync.Mutex
	jobs   map[string]*Job
	order  []string
	broken error // of Fail
}

// NewManager returns a manager without jobs.
func NewManager(cfg Config) *Manager {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Data != nil {
		cfg.Allowed.Guarded = append(slices.Clone(cfg.Allowed.Guarded), cfg.Data.Dir())
	}
	cfg.MaxRoles = cmp.Or(cfg.MaxRoles, maxRoles)
	cfg.MaxJobs, cfg.MaxJobBytes = cmp.Or(cfg.MaxJobs, 100), cmp.Or(cfg.MaxJobBytes, defaultJobBytes)
	parent, lasting := cmp.Or(cfg.StateDir, cfg.RunDir), cfg.Kept != nil && cfg.Data != nil
	if lasting {
		parent = cmp.Or(cfg.StateDir, cfg.Data.states())
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Manager{cfg: cfg, ctx: ctx, cancel: cancel, jobs: map[string]*Job{}, plans: make(chan struct{}, maxPlans),
		states: newStates(parent, lasting, cfg.MaxStates, cfg.MaxStateBytes, cfg.Log), queue: newQueue(&cfg)}
}

// Close stops every job, after its last checkpoint if it makes any, and waits until its roles have ended. No job starts after it. It removes kept states, but after Fail those
// that outlive the listener.
func (m *Manager) Close() error {
	m.saveAll()
	m.mu.Lock()
	m.cancel(fault.New(fault.Canceled, withListener))
	m.mu.Unlock()
	m.group.Wait()
	m.queue.close()
	if m.failing() { // the executors that have left the states come back for them
		return m.states.leave()
	}
	return m.states.close()
}

// Fail ends every job with an error, because the manager has lost what its jobs need. It does not wait for their ends. No job starts after it. Close is
// still to be called.
func (m *Manager) Fail(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() == nil {
		m.broken = why
		m.cancel(why)
	}
}

// failing reports whether the manager has lost what its jobs need.
func (m *Manager) failing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken != nil
}

// Start checks a job, makes its role programs, and begins to run it. A wrong program or specification is refused before any process starts.
func (m *Manager) Start(ctx context.Context, spec *job.JobSpec) (*Job, error) {
	return m.start(ctx, spec, "")
}

// start is Start of a job that resumes another; empty: none.
func (m *Manager) start(ctx context.Context, spec *job.JobSpec, continues string) (*Job, error) {
	jobspec.Complete(spec)
	if err := jobspec.Check(spec); err != nil {
		return nil, err
	}
	by := callerOf(ctx)
	var err error
	if spec.Namespace, err = by.home(spec.Namespace); err != nil {
		return nil, err
	}
	if err := checkPods(m.cfg.Launcher, spec); err != nil {
		return nil, err
	}
	if spec.Priority > 0 && !by.access.Covers(credential.Admin) {
		return nil, fault.E(fault.Denied, fault.Gotf("the priority %d of a job of %s, %s", spec.Priority, fault.Quote(by.user), by.name.Roles()), fault.Want("0 or less: an admin of all namespaces decides who comes before others"))
	}
	allowed := m.cfg.Allowed.of(by, spec.Namespace)
	if store := spec.Checkpoints.GetStore(); allowed.ReadsAll() && isOurStore(m, store) { // one without bounds may go on in the store of another job
		allowed = allowed.Also(store)
	}
	left := beginsWithOurs(m, allowed, spec, continues)
	if err := checkPlaces(allowed, spec, left); err != nil {
		return nil, err
	}
	plan, err := planInTurn(ctx, m, spec)
	if err != nil {
		return nil, err
	}
	defer plan.release()
	id := jobspec.ID(spec.Namespace, cmp.Or(spec.Name, newID()))
	concerns(ctx, id, plan.hash.String())
	if err := mayName(m, by, id); err != nil {
		return nil, err
	}
	if m.cfg.Data != nil {
		allowed = allowed.Also(m.cfg.Data.store(id))
	}
	ctx = policy.With(ctx, allowed)
	own, err := m.defaultCheckpoints(ctx, id, spec, plan.user)
	if err != nil {
		return nil, err
	}
	kept := &state.KeptJob{OwnStore: own, Spec: spec, Continues: continues, Owner: by.user}
	if left { // it may begin with what another job has left in the data folder
		ctx = policy.With(ctx, allowed.Also(m.cfg.Data.jobs()))
	}
	begin, err := m.openState(ctx, id, spec, plan.user) // before the lock, because it takes as long as the files are large
	if err != nil {
		return nil, err
	}
	j := newJob(m, id, spec, plan, begin)
	j.owner, j.status.Owner, j.allowed = by.user, by.user, allowed
	if err := m.add(j, kept, by.access); err != nil {
		return nil, errors.Join(err, begin.close())
	}
	return j, nil
}

// mayName refuses the name of another user's job, of which it would take the place.
func mayName(m *Manager, by caller, id string) error {
	if by.in(jobspec.NamespaceOf(id)).Covers(credential.Admin) {
		return nil
	}
	taken := func(owner string) error {
		if owner == by.user {
			return nil
		}
		return fault.E(fault.Denied, fault.At("job "+id), fault.Got("a name that a job of another user has"), fault.Want("another name"))
	}
	if j, err := m.Job(id); err == nil {
		if err := taken(j.owner); err != nil {
			return err
		}
	}
	if m.cfg.Data != nil {
		if k, err := m.cfg.Data.read(id); err == nil {
			return taken(k.Owner)
		} else if !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// stateDir is where the listener unpacks what roles load from; empty: the directory for temporary files.
func (m *Manager) stateDir() string { return cmp.Or(m.cfg.StateDir, m.cfg.RunDir) }

// discard stops a job whose id nobody was told, and releases its state if the job has ended before.
func (m *Manager) discard(ctx context.Context, j *Job) {
	m.cfg.Log.Info("the job is stopped: its client has gone before it was told the id", "job", j.ID)
	if err := j.Stop(context.WithoutCancel(ctx)); err == nil && j.spec.KeepState && j.Status().State == job.State_SUCCEEDED {
		_ = m.states.release(j.ID) // an error says that it is released
	}
}

// add begins to run a job, unless another has its name.
func (m *Manager) add(j *Job, kept *state.KeptJob, access credential.Access) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return fault.E(fault.Unavailable, fault.At("the listener cannot go on"), fault.Cause(m.broken))
	}
	if m.ctx.Err() != nil {
		return fault.New(fault.Unavailable, "the listener is closing")
	}
	if have, ok := m.jobs[j.ID]; ok && !have.Ended() {
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a name that a running job has"), fault.Want("another name"))
	}
	j.continues = kept.Continues
	for _, other := range m.jobs {
		if j.continues != "" && other.continues == j.continues && !other.Ended() {
			return fault.E(fault.InvalidArgument, fault.At("job "+j.continues), fault.Got("a job that goes on already as "+other.ID), fault.Want("one resumption at a time"),
				fault.Hint("look at it with \"edl jobs show "+other.ID+"\""))
		}
	}
	if err := admitRoles(m, j, access); err != nil {
		return err
	}
	if err := m.queue.enter(j.ID, schedule.Submitted{Job: m.queue.jobOf(j)}); err != nil {
		return err
	}
	m.forget(jobspec.NamespaceOf(j.ID), 1)
	if err := beginRun(m, j, kept); err != nil {
		m.queue.left(j.ID)
		return err
	}
	m.remember(j, kept)
	dropTraces(m.list())
	enter(m, j)
	beginJob(m, j)
	return nil
}

// beginJob runs a job to its end.
func beginJob(m *Manager, j *Job) {
	m.group.Go(func() {
		j.run(m.ctx)
		noteEnd(m, j)
	})
}

// enter makes a job known. m.mu is held.
func enter(m *Manager, j *Job) {
	m.jobs[j.ID] = j
	m.order = append(slices.DeleteFunc(m.order, func(o string) bool { return o == j.ID }), j.ID)
}

// Busy reports whether a manager has something that can outlive it: a job that runs, or a kept state.
func Busy(m *Manager) bool {
	return m.states.lasts() || slices.ContainsFunc(m.Jobs(), func(j *Job) bool { return !j.Ended() })
}

// Job returns a job by its id.
func (m *Manager) Job(id string) (*Job, error) {
	return find(m, id, func(string) bool { return true })
}

// find returns a job by its id, of those in namespaces that sees lets the caller know of.
func find(m *Manager, id string, sees func(namespace string) bool) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[id]
	if !ok || !sees(jobspec.NamespaceOf(id)) {
		unknown := fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)), fault.Want("a job of this listener, which has had none"))
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(m.jobs)), func(id string) bool { return !sees(jobspec.NamespaceOf(id)) })
		if len(known) > 0 {
			unknown.Want = "one of " + strings.Join(known, ", ")
		}
		return nil, unknown
	}
	return j, nil
}

// Jobs returns all jobs that are remembered, the oldest first.
func (m *Manager) Jobs() []*Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list()
}

// list is Jobs. m.mu is held.
func (m *Manager) list() []*Job {
	out := make([]*Job, len(m.order))
	for i, id := range m.order {
		out[i] = m.jobs[id]
	}
	return out
}

// newID is a name that no other job has.
func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return "job-" + hex.EncodeToString(b[:])
}
