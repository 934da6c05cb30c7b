package listen

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A queue lets the jobs of a manager share what it may use, as package schedule decides. A manager whose Config names neither cores nor memory counts what jobs take,
// and starts each at once.
//
//	add ---> submit ---> (WAITING) ---> await returns: the roles start ---> left
//	                                        |     ^
//	                                        v     |
//	                                      elastic: SetTrainers; has
//
// What waits, and what runs, is in the journals of the jobs. What owners have used is in a file of the data folder.
type queue struct {
	spread bool // roles run on nodes
	grows  bool // elastic jobs get what is free
	file   string
	warn   func(text string, err error)
	began  time.Time

	mu      sync.Mutex // after those of managers and jobs
	machine *schedule.Machine
	jobs    map[string]*queued
	timer   *time.Timer
	closed  bool
	nodes   []schedule.Node // without what the machine knows better
	off     map[string]bool // nodes that are cordoned
}

// A queued is a job that waits or runs.
type queued struct {
	started  chan struct{} // closed when it may start, or go on after it was suspended
	changed  chan struct{} // holds a value when trainers has changed since the start
	leaves   chan struct{} // holds a value when it is to be suspended
	leaving  *leaving      // that wish, until it is answered; guarded by the mutex of the queue
	trainers int           // that it is to have; guarded by the mutex of the queue
	has      int           // trainers that have not ended, as they were told last
	servers  []string      // the node of each server
	nodes    []string      // the node of each trainer
}

// queueFile is the file of the data folder with what owners have used.
const queueFile = "queue"

// maxQueueFile bounds it.
const maxQueueFile = 1 << 20

func newQueue(cfg *Config) *queue {
	sharing := cfg.Sharing
	if sharing == (schedule.Policy{}) {
		sharing = schedule.DefaultPolicy()
	}
	capacity := schedule.Resources{Cores: cfg.Cores, Memory: cfg.Memory}
	q := &queue{spread: cfg.Spread, grows: cfg.Cores > 0 || cfg.Spread, began: time.Now(), jobs: map[string]*queued{}, off: map[string]bool{},
		nodes: []schedule.Node{{Name: nodeName(cfg), Has: capacity}},
		warn:  func(text string, err error) { cfg.Log.Warn(text, "error", err) }}
	if q.spread {
		q.nodes = nil
	}
	q.machine = schedule.New(sharing, q.nodes...)
	q.timer = time.AfterFunc(time.Hour, func() { _ = q.step(schedule.Tick{}) })
	q.timer.Stop()
	if cfg.Data == nil {
		return q
	}
	q.file = filepath.Join(cfg.Data.dir, queueFile)
	if err := q.load(); err != nil {
		q.warn("it is not known what owners of jobs have used before", err)
	}
	return q
}

// load reads what owners have used at the earlier listener.
func (q *queue) load() error {
	info, err := os.Stat(q.file)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil && info.Size() > maxQueueFile {
		return fault.E(fault.TooLarge, fault.At(q.file), fault.Gotf("%d bytes", info.Size()), fault.Wantf("at most %d", maxQueueFile))
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(q.file)
	}
	m := &state.Queue{}
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return fault.File(fault.Corrupt, q.file, err)
	}
	schedule.SetUses(q.machine, m.Used, time.Since(time.UnixMilli(m.AtMs)))
	for _, name := range m.Cordoned {
		q.off[name] = true
	}
	return q.setNodes(q.nodes)
}

// save writes what owners have used. mu is held.
func (q *queue) save() {
	if q.file == "" {
		return
	}
	b, err := proto.Marshal(&state.Queue{Used: schedule.Uses(q.machine), AtMs: time.Now().UnixMilli(), Cordoned: slices.Sorted(maps.Keys(q.off))})
	if err == nil {
		err = os.WriteFile(q.file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(q.file+".new", q.file)
	}
	if err != nil {
		q.warn("the next listener will not know what owners of jobs have used", err)
	}
}

// close ends all decisions.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.timer.Stop()
	q.save()
}

// step makes a decision and carries it out.
func (q *queue) step(e schedule.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stepLocked(e)
}

// stepLocked is step. mu is held.
func (q *queue) stepLocked(e schedule.Event) error {
	if q.closed {
		return nil
	}
	out, err := q.machine.Step(time.Since(q.began), e)
	if err != nil {
		return err
	}
	for _, s := range out.Start {
		x := q.jobs[s.ID]
		x.trainers, x.servers, x.nodes = s.Trainers, s.Servers, s.Nodes
		close(x.started)
	}
	for _, s := range out.Scale {
		x := q.jobs[s.ID]
		x.trainers, x.nodes = s.Trainers, s.Nodes
		poke(x.changed)
	}
	for _, id := range out.Suspend {
		x := q.jobs[id]
		x.leaving = &leaving{known: make(chan struct{})}
		poke(x.leaves)
	}
	if at, ok := q.machine.Next(); ok {
		q.timer.Reset(max(0, at-time.Since(q.began)))
	} else {
		q.timer.Stop()
	}
	return nil
}

// enter brings a job by an event, which may refuse it.
func (q *queue) enter(id string, e schedule.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.jobs[id]
	q.jobs[id] = &queued{started: make(chan struct{}), changed: make(chan struct{}, 1), leaves: make(chan struct{}, 1)}
	err := q.stepLocked(e)
	if err != nil {
		if delete(q.jobs, id); before != nil {
			q.jobs[id] = before
		}
		return err
	}
	if runs, ok := e.(schedule.Runs); ok {
		x := q.jobs[id]
		x.trainers = runs.Trainers
		close(x.started)
	}
	return nil
}

// left notes that a job has ended.
func (q *queue) left(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs[id] == nil {
		return
	}
	_ = q.stepLocked(schedule.Ended{ID: id})
	delete(q.jobs, id)
	q.save()
}

// of returns what the queue knows of a job.
func (q *queue) of(id string) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[id]
}

// trainersOf is how many trainers a job is to have.
func (q *queue) trainersOf(x *queued) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return x.trainers
}

// why tells why a job waits.
func (q *queue) why(id string) (r schedule.Reason, since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok = whyWithin(q.machine, id)
	return r, q.began.Add(r.Since), ok
}

// whyWithin is schedule.Why that names no job of another namespace: who sees the job that waits may not see that.
func whyWithin(m *schedule.Machine, id string) (r schedule.Reason, ok bool) {
	r, ok = schedule.Why(m, id)
	hidden := func(other string) string {
		if other == "" || jobspec.NamespaceOf(other) == jobspec.NamespaceOf(id) {
			return other
		}
		return "(of another namespace)"
	}
	r.For = hidden(r.For)
	for i, other := range r.Leaving {
		r.Leaving[i] = hidden(other)
	}
	return r, ok
}

// jobOf is what the queue knows of a job.
func (q *queue) jobOf(j *Job) schedule.Job {
	s := schedule.Job{ID: j.ID, Owner: j.owner, Priority: int(j.spec.Priority), Trainer: j.needs.trainer, Servers: j.needs.servers, Least: int(j.spec.Trainers), Most: int(j.spec.Trainers),
		Yields: maySuspend(j.spec) == nil}
	if q.grows {
		s.Most = int(max(j.spec.TrainersMax, j.spec.Trainers))
	}
	return s
}

// await returns when the job may start, with the number of trainers that it has then. If it has to wait, its state says so.
func (q *queue) await(ctx context.Context, j *Job) error {
	x := q.of(j.ID)
	if inheritsSuspension(j) { // suspends waits
		return nil
	}
	select {
	case <-x.started:
	default:
		if !isIn(j, job.State_WAITING) {
			j.setState(job.State_WAITING, nil)
		}
		select {
		case <-x.started:
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(context.Cause(ctx)), "job "+j.ID, context.Cause(ctx))
		}
	}
	if !q.grows || ran(j) {
		return nil
	}
	trainers := int32(q.trainersOf(x))
	j.withLock(func() { j.wanted, j.status.Trainers = trainers, trainers })
	return nil
}

// follow makes the number of trainers of a job that runs what the queue says, until ctx ends.
func (q *queue) follow(ctx context.Context, j *Job, registry cluster.Registry) {
	x := q.of(j.ID)
	for {
		select {
		case <-x.changed:
		case <-ctx.Done():
			return
		}
		retry(ctx, j, "the number of trainers", func() error {
			return registry.SetTrainers(ctx, q.trainersOf(x))
		})
	}
}

// has tells the queue how many trainers of a job have not ended.
func (q *queue) has(c *jobRun) {
	if !q.grows {
		return
	}
	trainers := 0
	c.job.withLock(func() {
		for _, r := range c.machine.Roles() {
			if r.Role == job.Role_TRAINER && (r.State == supervise.Running || r.State == supervise.Draining) {
				trainers = max(trainers, r.Index+1)
			}
		}
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.jobs[c.job.ID]; x != nil && x.has != trainers {
		x.has = trainers
		_ = q.stepLocked(schedule.Has{ID: c.job.ID, Trainers: trainers})
	}
}

// tell completes the status of a job: why it waits, or what it has.
func (q *queue) tell(s *job.JobStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Waiting, s.Before, s.Suspended = "", 0, false
	if s.State == job.State_WAITING {
		if r, ok := whyWithin(q.machine, s.Job); ok {
			s.Waiting, s.Before, s.Suspended = r.String(), int32(r.Before), r.Suspension != (schedule.Suspension{})
		}
		return
	}
	if has, ok := schedule.Takes(q.machine, s.Job); ok {
		s.Promised = &job.Needs{Millicores: &has.Cores, Memory: has.Memory}
	}
}

// waits is what a job waits for that stands in the job queue.
func (q *queue) waits(j *Job) (waits []*job.Wait) {
	if r, since, ok := q.why(j.ID); ok {
		waits = append(waits, &job.Wait{Who: "job " + j.ID, What: r.String(), Since: timestamppb.New(since)})
	}
	return waits
}
