package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
)

// A large job keeps its queues in etcd. Its coordinators follow each other.
type large struct {
	t        *testing.T
	cfg      coordinator.Config
	registry cluster.Registry
	commits  weighed
}

// coordinate runs a coordinator until do has returned, and returns what is durable then.
func (l *large) coordinate(do func(*coordinator.Server)) (entries map[string][]byte) {
	l.t.Helper()
	member, err := l.registry.LeadCoordinator(l.t.Context(), "here")
	if err != nil {
		l.t.Fatal(err)
	}
	l.commits = weighed{State: l.registry.State(member)}
	s, ended := coordinator.New(l.cfg), make(chan error, 1)
	ctx, cancel := context.WithCancel(l.t.Context())
	defer func() { cancel(); <-ended }()
	go func() { ended <- s.Run(ctx, coordinator.Lead{Fence: member.Fence(), State: &l.commits}) }()
	do(s)
	if entries, err = l.commits.Load(ctx); err != nil {
		l.t.Fatal(err)
	}
	if err := member.Leave(ctx); err != nil {
		l.t.Fatal(err)
	}
	return entries
}

// join begins the generation after last, with trainer 0.
func (l *large) join(s *coordinator.Server, last uint64) uint64 {
	l.t.Helper()
	r, err := s.Join(l.t.Context(), &rpc.JoinRequest{Id: idOf(last, 0, 0), Incarnation: 1})
	if err != nil {
		l.t.Fatal(err)
	}
	return r.Generation
}

func (l *large) ask(s *coordinator.Server, m *rpc.GetTaskRequest) *rpc.Task {
	l.t.Helper()
	m.Dataset = "d"
	r, err := s.GetTask(l.t.Context(), m)
	if err != nil || r.Task == nil && !m.ReportOnly {
		l.t.Fatal(r, err)
	}
	return r.Task
}

// B1 row 14: a million tasks weigh in etcd what a thousand do, and neither they nor a request come near the limits of its requests. The next
// coordinator goes on where the one before was, up to the last task.
func TestMillionTasks(t *testing.T) {
	server, err := cluster.Embed(t.Context(), filepath.Join(t.TempDir(), "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, sync := range []bool{false, true} {
		weights := map[int64]weight{}
		for _, tasks := range []int64{1e3, 1e6} {
			registry, err := cluster.Open(t.Context(), cluster.Config{Endpoints: server.Endpoints(),
				Prefix: cluster.Prefix(fmt.Sprint("tasks-", sync, "-", tasks)), Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			l := &large{t: t, cfg: config(1), registry: registry}
			l.cfg.Sync, l.cfg.RecordsPerTask, l.cfg.Servers = sync, 1, []rpc.ParameterServerClient{&fakeServer{}}
			l.cfg.Live = func(context.Context) (map[cluster.Member]id.Incarnation, error) {
				return map[cluster.Member]id.Incarnation{trainerOf(0): 1}, nil
			}
			if sync {
				weights[tasks] = l.trainSync(tasks)
			} else {
				weights[tasks] = l.trainAsync(tasks)
			}
			if err := registry.Close(); err != nil {
				t.Error(err)
			}
		}
		few, many := weights[1e3], weights[1e6]
		t.Logf("sync %v: %+v with 1e3 tasks, %+v with 1e6", sync, few, many)
		// What the coordinator writes of its members may be beside a request, or not.
		if many.entries > few.entries+2 || many.bytes > few.bytes+512 || many.largest > 512 || many.changes > 16 || many.changed > 2048 {
			t.Errorf("sync %v: %+v with 1e3 tasks, %+v with 1e6", sync, few, many)
		}
	}
}

// report reports ten files of so many records.
func (l *large) report(s *coordinator.Server, records int64) {
	l.t.Helper()
	n := records / 10
	if err := s.TakeDataset(l.t.Context(), &rpc.ReportDatasetRequest{Id: firstID(0, 0),
		Dataset: &rpc.Dataset{Name: "d", Files: filesOf(n, n, n, n, n, n, n, n, n, n)}}); err != nil {
		l.t.Fatal(err)
	}
}

// trainAsync trains 500 tasks, half of them with another coordinator.
func (l *large) trainAsync(tasks int64) weight {
	var last *rpc.Task
	train := func(s *coordinator.Server, generation uint64, from, to int64) {
		for i := from; i < to; i++ {
			m := &rpc.GetTaskRequest{Id: idOf(generation, 0, uint64(i))}
			if last != nil {
				m.Finished = []*rpc.Task{last}
			}
			if last = l.ask(s, m); last.Id != i {
				l.t.Fatalf("task %d, want %d", last.Id, i)
			}
		}
	}
	l.coordinate(func(s *coordinator.Server) {
		generation := l.join(s, 0)
		l.report(s, tasks)
		train(s, generation, 0, 250)
	})
	entries := l.coordinate(func(s *coordinator.Server) {
		train(s, 1, 250, 500)
		q, err := s.ShowQueues(l.t.Context(), &rpc.QueuesRequest{Job: firstID(0, 0).Job})
		if err != nil || q.Queues[0].Done != 499 || q.Queues[0].Pending != 1 || q.Queues[0].Todo != tasks-500 {
			l.t.Errorf("%v, %v", q, err)
		}
	})
	return weightOf(entries, l.commits)
}

// trainSync trains the first tasks with one coordinator and the last ones with another.
func (l *large) trainSync(tasks int64) weight {
	train := func(s *coordinator.Server, generation uint64, from, to int64) {
		for i := from; i < to; i++ {
			task := l.ask(s, &rpc.GetTaskRequest{Id: idOf(generation, 0, 0), Position: i})
			if task.Id != i {
				l.t.Fatalf("task %d, want %d", task.Id, i)
			}
			l.ask(s, &rpc.GetTaskRequest{Id: idOf(generation, 0, 0), Finished: []*rpc.Task{task}, ReportOnly: true})
		}
	}
	l.coordinate(func(s *coordinator.Server) {
		generation := l.join(s, 0)
		l.report(s, tasks)
		train(s, generation, 0, 100)
	})
	entries := l.coordinate(func(s *coordinator.Server) {
		train(s, l.join(s, 1), tasks-100, tasks)
		q, err := s.ShowQueues(l.t.Context(), &rpc.QueuesRequest{Job: firstID(0, 0).Job})
		if err != nil || q.Queues[0].Done != tasks || q.Queues[0].Pending+q.Queues[0].Todo != 0 {
			l.t.Errorf("%v, %v", q, err)
		}
	})
	return weightOf(entries, l.commits)
}

// weighed is a cluster.State that weighs what is committed.
type weighed struct {
	cluster.State
	changes, bytes int // of the largest commit
}

func (w *weighed) Commit(ctx context.Context, changes []cluster.Change) error {
	bytes := 0
	for _, c := range changes {
		bytes += len(c.Key) + len(c.Value)
	}
	w.changes, w.bytes = max(w.changes, len(changes)), max(w.bytes, bytes)
	return w.State.Commit(ctx, changes)
}

// weight is what a job has in etcd: entries, their bytes, and the largest one; and the largest commit of a request.
type weight struct{ entries, bytes, largest, changes, changed int }

func weightOf(entries map[string][]byte, commits weighed) weight {
	w := weight{entries: len(entries), changes: commits.changes, changed: commits.bytes}
	for key, value := range entries {
		w.bytes += len(key) + len(value)
		w.largest = max(w.largest, len(value))
	}
	return w
}

// B1 row 14: requests that wait for the store are made durable together, in groups that fit into one transaction; and nobody is answered before that
// (trap 14).
func TestGroupsFitIntoATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trainers = 200
		h := newHome(t, async(trainers))
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		for rank := range uint32(trainers) {
			h.live.set(rank, incarnation(rank))
			go func() {
				_, _ = s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation(rank)})
			}()
		}
		synctest.Wait()
		if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(1e6)}}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		h.store.failing(func([]cluster.Change) error { <-answer; return nil })
		before, told := h.store.commits, make(chan error, trainers)
		for rank := range uint32(trainers) {
			go func() {
				r, err := s.GetTask(context.WithoutCancel(t.Context()), &rpc.GetTaskRequest{Id: firstID(rank, 0), Dataset: "d"})
				if err == nil && r.Task == nil {
					t.Errorf("trainer %d is told %v", rank, r)
				}
				told <- err
			}()
		}
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("%d trainers are answered before anything is durable", len(told))
		}
		close(answer)
		for range trainers {
			if err := <-told; err != nil {
				t.Error(err)
			}
		}
		if n := h.store.commits - before; h.store.largest > cluster.MaxChanges || n > trainers/10 {
			t.Errorf("%d requests were %d commits, the largest of %d changes; want at most %d changes each", trainers, n, h.store.largest, cluster.MaxChanges)
		}
		s.Fail(nil)
		<-ended
	})
}

// A change that is durable although its answer was lost has happened: what follows builds on it. Otherwise a task would be given to two trainers.
func TestLostAnswerOfTheStore(t *testing.T) {
	h := newHome(t, async(2))
	s := h.start()
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 100)
	first := s.mustAsk(1, 0, 0)
	h.store.failing(func(changes []cluster.Change) error {
		h.store.apply(changes)
		return fault.New(fault.Unavailable, "no answer")
	})
	if _, err := s.ask(1, 0, 1, first); !errors.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	h.store.failing(nil)
	other, repeated := s.mustAsk(1, 1, 0), s.mustAsk(1, 0, 1, first)
	if repeated.Id != first.Id+1 || repeated.Epoch != 1 || other.Id != first.Id+2 {
		t.Errorf("the request whose answer was lost is given task %d, dispatch %d, and another trainer task %d; want %d, 1 and %d", repeated.Id,
			repeated.Epoch, other.Id, first.Id+1, first.Id+2)
	}
}

// What needs the store waits for it as long as for a member that is missing. Then the job fails with what the store's client says.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := async(1)
		cfg.StartDeadline = time.Minute
		h := newHome(t, cfg)
		away := &unanswered{}
		lead := h.store.lead()
		away.State = lead.State
		lead.State = away
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), lead) }()
		h.live.set(0, incarnation(0))
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: incarnation(0)}); err != nil {
			t.Fatal(err)
		}
		away.now.Store(true)
		told := make(chan error, 1)
		began := time.Now()
		go func() {
			told <- s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(100)}})
		}()
		if err := <-ended; !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "etcd at host:2379") {
			t.Errorf("the job ends with %v", err)
		}
		if waited := time.Since(began); waited != cfg.StartDeadline { // by the clock of the test
			t.Errorf("it has waited for %v, want %v", waited, cfg.StartDeadline)
		}
		if err := <-told; !errors.Is(err, fault.DeadlineExceeded) {
			t.Errorf("the trainer is told %v", err)
		}
	})
}

// unanswered is a state in an etcd that does not answer when it is away.
type unanswered struct {
	cluster.State
	now atomic.Bool
}

func (u *unanswered) Commit(ctx context.Context, changes []cluster.Change) error {
	if !u.now.Load() {
		return u.State.Commit(ctx, changes)
	}
	<-ctx.Done()
	return waits.GaveUp(ctx, "job", waits.Wait{What: "an answer of the store: etcd at host:2379"})
}
