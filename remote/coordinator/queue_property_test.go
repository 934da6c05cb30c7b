package coordinator_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// queueSim runs an async queue against trainers that finish, fail, hang and come back late.
type queueSim struct {
	*rapid.T
	queue  *coordinator.Queue
	policy coordinator.Policy
	tasks  int
	now    time.Duration
	held   []*rpc.Task // dispatches that the queue believes in
	holder []int
	past   []*rpc.Task // dispatches that it does not
	where  []place     // of each task in this pass
	failed []int       // of each task in this pass
	pass   int32
}

type place int

const (
	todo place = iota
	pendingNow
	done
	discarded
)

// Whatever trainers do, no task is lost or in two queues, none is trained twice in a pass unless it came back, and all passes end.
func TestQueueProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &queueSim{T: t, tasks: rapid.IntRange(1, 6).Draw(t, "tasks"), policy: coordinator.Policy{Trainers: rapid.IntRange(1, 3).Draw(t, "trainers"),
			Passes: rapid.IntRange(1, 3).Draw(t, "passes"), MaxFailures: rapid.IntRange(0, 2).Draw(t, "failures"), MinTimeout: time.Second, MaxTimeout: time.Minute}}
		s.queue = coordinator.NewQueue(s.policy, tasksOf(s.tasks))
		s.where, s.failed = make([]place, s.tasks), make([]int, s.tasks)
		for !s.step() {
			s.check()
		}
		if n := s.count(discarded); int(s.pass)+1 != s.policy.Passes && n != s.tasks {
			t.Fatalf("the data ended in pass %d of %d with %d of %d tasks discarded", s.pass, s.policy.Passes, n, s.tasks)
		}
	})
}

func (s *queueSim) count(p place) (n int) {
	for _, w := range s.where {
		if w == p {
			n++
		}
	}
	return n
}

// step lets something happen, and reports whether the data has ended.
func (s *queueSim) step() (ended bool) {
	s.now += time.Duration(rapid.IntRange(0, 5000).Draw(s.T, "ms")) * time.Millisecond
	if len(s.past) > 0 && rapid.IntRange(0, 3).Draw(s.T, "late") == 0 { // word of a dispatch that is over
		m := rapid.SampledFrom(s.past).Draw(s.T, "past")
		rank := rapid.IntRange(0, s.policy.Trainers-1).Draw(s.T, "rank")
		if err := s.queue.Finish(rank, m, s.now); err == nil {
			s.Fatalf("finished %v, which is over", m)
		}
		if _, err := s.queue.Failed(rank, m); err == nil {
			s.Fatalf("failed %v, which is over", m)
		}
		if late, _ := s.queue.Timeout(m.Id, m.Epoch); late {
			s.Fatalf("%v, which is over, is late", m)
		}
		return false
	}
	if len(s.held) == 0 || rapid.IntRange(0, 2).Draw(s.T, "action") == 0 {
		return s.get()
	}
	i := rapid.IntRange(0, len(s.held)-1).Draw(s.T, "held")
	m, rank := s.held[i], s.holder[i]
	s.held, s.holder = append(s.held[:i], s.held[i+1:]...), append(s.holder[:i], s.holder[i+1:]...)
	s.past = append(s.past, m)
	switch rapid.IntRange(0, 3).Draw(s.T, "outcome") {
	case 0:
		dropped, err := s.queue.Failed(rank, m)
		if err != nil {
			s.Fatal(err)
		}
		s.back(m, dropped)
	case 1:
		late, dropped := s.queue.Timeout(m.Id, m.Epoch)
		if !late {
			s.Fatalf("%v is not late", m)
		}
		s.back(m, dropped)
	default:
		if err := s.queue.Finish(rank, m, s.now); err != nil {
			s.Fatal(err)
		}
		s.where[m.Id] = done
	}
	return false
}

func (s *queueSim) get() (ended bool) {
	rank := rapid.IntRange(0, s.policy.Trainers-1).Draw(s.T, "rank")
	g, err := s.queue.Get(rank, s.pass, s.now)
	switch {
	case err != nil:
		s.Fatal(err)
	case g.EndOfData:
		return true
	case g.EndOfPass:
		if n := s.count(todo) + s.count(pendingNow); n > 0 {
			s.Fatalf("pass %d ends with %d tasks left", s.pass, n)
		}
		s.pass++
		for i, w := range s.where {
			if s.failed[i] = 0; w == done {
				s.where[i] = todo
			}
		}
	case g.Wait:
		if n := s.count(todo); n > 0 {
			s.Fatalf("told to wait with %d tasks to do", n)
		}
	default:
		if s.where[g.Task.Id] != todo || g.Task.Pass != s.pass || g.Timeout < s.policy.MinTimeout || g.Timeout > s.policy.MaxTimeout {
			s.Fatalf("%+v in pass %d while the task is in %v", g, s.pass, s.where[g.Task.Id])
		}
		s.where[g.Task.Id] = pendingNow
		s.held, s.holder = append(s.held, g.Task), append(s.holder, rank)
	}
	return false
}

// back notes that a task went back to be done, or was discarded.
func (s *queueSim) back(m *rpc.Task, dropped bool) {
	s.failed[m.Id]++
	if dropped != (s.failed[m.Id] > s.policy.MaxFailures) {
		s.Fatalf("task %d was discarded: %v, after %d failures", m.Id, dropped, s.failed[m.Id])
	}
	if s.where[m.Id] = todo; dropped {
		s.where[m.Id] = discarded
	}
}

func (s *queueSim) check() {
	c := s.queue.Counts()
	want := coordinator.Counts{Pass: int(s.pass), Todo: s.count(todo), Pending: s.count(pendingNow), Done: s.count(done), Discarded: s.count(discarded)}
	if want.Todo+want.Pending == 0 && c.Pass == want.Pass+1 { // the queue is a pass ahead of what trainers know
		want.Pass, want.Todo, want.Done = c.Pass, want.Done, 0
	}
	if c != want || c.Todo+c.Pending+c.Done+c.Discarded != s.tasks {
		s.Fatalf("counts %+v, want %+v of %d tasks", c, want, s.tasks)
	}
}

// In sync mode every trainer is given every task once a pass, in order, whatever the others do meanwhile, and all passes end for all of them.
func TestSyncQueueProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, tasks := rapid.IntRange(1, 4).Draw(t, "trainers"), rapid.IntRange(1, 5).Draw(t, "tasks")
		passes := rapid.IntRange(1, 3).Draw(t, "passes")
		q := coordinator.NewQueue(coordinator.Policy{Broadcast: true, Trainers: n, Passes: passes}, tasksOf(tasks))
		type trainer struct {
			pass  int32
			given []*rpc.Task // of this pass, the finished ones nil
			ended bool
		}
		trainers := make([]trainer, n)
		for left := n; left > 0; {
			rank := rapid.IntRange(0, n-1).Draw(t, "rank")
			m := &trainers[rank]
			if m.ended {
				continue
			}
			if i := rapid.IntRange(0, tasks).Draw(t, "finish"); i < len(m.given) && m.given[i] != nil {
				if err := q.Finish(rank, m.given[i], 0); err != nil {
					t.Fatal(err)
				}
				if err := q.Finish(rank, m.given[i], 0); err == nil {
					t.Fatal("finished twice")
				}
				m.given[i] = nil
				continue
			}
			g, err := q.Get(rank, m.pass, 0)
			switch {
			case err != nil:
				t.Fatal(err)
			case g.Task != nil:
				if int(g.Task.Id) != len(m.given) || g.Task.Pass != m.pass || g.Timeout != 0 {
					t.Fatalf("trainer %d in pass %d was given %v after %d", rank, m.pass, g, len(m.given))
				}
				m.given = append(m.given, g.Task)
			case g.EndOfPass || g.EndOfData:
				if len(m.given) != tasks || g.EndOfData != (int(m.pass)+1 == passes) {
					t.Fatalf("pass %d of trainer %d ended after %d tasks: %+v", m.pass, rank, len(m.given), g)
				}
				for _, task := range m.given {
					if task != nil {
						if err := q.Finish(rank, task, 0); err != nil {
							t.Fatal(err)
						}
					}
				}
				if m.pass, m.given = m.pass+1, nil; g.EndOfData {
					m.ended = true
					left--
				}
			}
		}
		if c := q.Counts(); c.Done != tasks || c.Pass != passes-1 {
			t.Fatalf("at the end: %+v", c)
		}
	})
}
