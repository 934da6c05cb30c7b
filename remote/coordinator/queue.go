package coordinator

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Policy bounds how a Queue treats tasks.
type Policy struct {
	Broadcast   bool          // sync mode: every trainer is given every task
	Trainers    int           // ranks are 0 to Trainers-1
	Passes      int           // at least 1
	MaxFailures int           // a task that failed or timed out more often is discarded
	MinTimeout  time.Duration // bounds of the timeout of a task, which is otherwise
	MaxTimeout  time.Duration // TimeoutFactor times the moving average of task times
}

// TimeoutFactor is how many average task times a task may take.
const TimeoutFactor = 8

// Queue is the task queue of one dataset. It is pure: time is an argument, counted from any fixed start.
type Queue struct {
	policy  Policy
	tasks   []taskState
	todo    []int
	pending map[int]bool
	done    int
	lost    int // discarded
	pass    int
	average time.Duration // moving average of task times, 0 before the first
	next    []int         // broadcast: per rank, the position of its next task
	ended   bool          // all passes are done
}

type taskState struct {
	task      *rpc.Task // without epoch and pass
	epoch     uint32
	failures  int
	discarded bool
	holder    int          // async: rank that has it
	finished  map[int]bool // broadcast: ranks that have finished it, nil for none
	started   time.Duration
}

// NewQueue fills the todo queue with tasks, which are numbered in their order.
func NewQueue(p Policy, tasks []*rpc.Task) *Queue {
	q := &Queue{policy: p, pending: map[int]bool{}, next: make([]int, p.Trainers)}
	for i, t := range tasks {
		t.Id = int64(i)
		q.tasks = append(q.tasks, taskState{task: t})
	}
	q.fill()
	return q
}

// fill starts a pass: every task that was not discarded is to be done again, with its failures forgotten.
func (q *Queue) fill() {
	q.todo, q.done = q.todo[:0], 0
	for i := range q.tasks {
		t := &q.tasks[i]
		t.failures, t.finished = 0, nil
		if !t.discarded {
			q.todo = append(q.todo, i)
		}
	}
	clear(q.next)
	q.settle()
}

// A Grant is the answer to Get.
type Grant struct {
	Task      *rpc.Task     // nil when there is none
	Timeout   time.Duration // of Task: report Timeout after it; 0 for none
	EndOfPass bool
	EndOfData bool
	Wait      bool // tasks of the pass are pending elsewhere and may come back: ask again when something has changed
}

// Get asks for the next task of a pass.
func (q *Queue) Get(rank int, pass int32, now time.Duration) (Grant, error) {
	if rank < 0 || rank >= q.policy.Trainers {
		return Grant{}, &fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("trainer %d", rank), Want: fmt.Sprintf("trainers 0 to %d", q.policy.Trainers-1)}
	}
	switch {
	case q.ended:
		return Grant{EndOfPass: true, EndOfData: true}, nil
	case int(pass) < q.pass:
		return Grant{EndOfPass: true}, nil
	case int(pass) == q.pass+1:
		return Grant{Wait: true}, nil // the others still finish the pass before
	case int(pass) > q.pass:
		return Grant{}, &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("a request for pass %d", pass), Want: fmt.Sprintf("pass %d", q.pass)}
	case q.policy.Broadcast:
		return q.broadcast(rank, now), nil
	}
	return q.dispatch(rank, now), nil
}

// dispatch gives the first task of the todo queue to one trainer.
func (q *Queue) dispatch(rank int, now time.Duration) Grant {
	if len(q.todo) == 0 {
		return Grant{Wait: true}
	}
	i := q.todo[0]
	q.todo = q.todo[1:]
	q.pending[i] = true
	t := &q.tasks[i]
	t.epoch++
	t.holder, t.started = rank, now
	return Grant{Task: q.grant(i), Timeout: q.timeout()}
}

// broadcast gives a trainer the next task in the order of the dataset.
func (q *Queue) broadcast(rank int, now time.Duration) Grant {
	for q.next[rank] < len(q.tasks) {
		i := q.next[rank]
		q.next[rank]++
		t := &q.tasks[i]
		if t.discarded {
			continue
		}
		if !q.pending[i] {
			q.pending[i] = true
			q.todo = q.todo[1:] // the first to arrive at a task takes it from the head
			t.epoch++
			t.started = now
		}
		return Grant{Task: q.grant(i)}
	}
	return Grant{EndOfPass: true, EndOfData: q.pass+1 >= q.policy.Passes}
}

func (q *Queue) grant(i int) *rpc.Task {
	t := &q.tasks[i]
	return &rpc.Task{Id: t.task.Id, Epoch: t.epoch, Pass: int32(q.pass), Dataset: t.task.Dataset, Records: t.task.Records}
}

// holds finds the pending task that a message is about; a message of an earlier dispatch is refused, so that a late trainer cannot complete
// what is now another's.
func (q *Queue) holds(rank int, m *rpc.Task) (*taskState, error) {
	if m.Id < 0 || m.Id >= int64(len(q.tasks)) {
		return nil, &fault.Fault{Kind: fault.NotFound, Got: fmt.Sprintf("task %d", m.Id), Want: fmt.Sprintf("0 to %d", len(q.tasks)-1)}
	}
	t := &q.tasks[m.Id]
	holder := t.holder == rank
	if q.policy.Broadcast {
		holder = rank >= 0 && rank < len(q.next) && int(m.Id) < q.next[rank] && !t.finished[rank]
	}
	if !q.pending[int(m.Id)] || t.epoch != m.Epoch || int(m.Pass) != q.pass || !holder {
		return nil, &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("word of task %d, dispatch %d of pass %d, from trainer %d", m.Id, m.Epoch, m.Pass, rank),
			Want: fmt.Sprintf("a task that it has; the last dispatch is %d, of pass %d", t.epoch, q.pass)}
	}
	return t, nil
}

// Finish takes a trainer's word that every record of a task has been trained.
func (q *Queue) Finish(rank int, m *rpc.Task, now time.Duration) error {
	t, err := q.holds(rank, m)
	if err != nil {
		return err
	}
	if q.policy.Broadcast {
		if t.finished == nil {
			t.finished = map[int]bool{}
		}
		if t.finished[rank] = true; len(t.finished) < q.policy.Trainers {
			return nil
		}
		t.finished = nil
	}
	delete(q.pending, int(m.Id))
	q.done++
	took := now - t.started
	if q.average == 0 {
		q.average = took
	} else {
		q.average += (took - q.average) / 8
	}
	q.settle()
	return nil
}

// settle ends the pass when nothing is left of it, also when the last task was discarded.
func (q *Queue) settle() {
	if q.ended || len(q.todo) > 0 || len(q.pending) > 0 {
		return
	}
	if q.pass+1 >= q.policy.Passes || q.Exhausted() {
		q.ended = true
		return
	}
	q.pass++
	q.fill()
}

// Failed takes a trainer's word that it cannot do a task. It reports whether the task was discarded. Where every trainer is given every task, none
// comes back: the others have it, too.
func (q *Queue) Failed(rank int, m *rpc.Task) (discarded bool, err error) {
	t, err := q.holds(rank, m)
	if err != nil {
		return false, err
	}
	if q.policy.Broadcast {
		return false, &fault.Fault{Kind: fault.Unsupported, Got: fmt.Sprintf("task %d back from trainer %d in sync mode", m.Id, rank), Want: "a trainer that does its tasks, or fails"}
	}
	return q.returned(int(m.Id), t), nil
}

// Timeout is called when the timeout of a grant has passed. It reports whether the task was still pending under that dispatch, and whether it
// was discarded.
func (q *Queue) Timeout(id int64, epoch uint32) (late, discarded bool) {
	if id < 0 || id >= int64(len(q.tasks)) || !q.pending[int(id)] || q.tasks[id].epoch != epoch {
		return false, false
	}
	return true, q.returned(int(id), &q.tasks[id])
}

// returned puts a pending task back to the end of the todo queue, or discards it.
func (q *Queue) returned(i int, t *taskState) (discarded bool) {
	delete(q.pending, i)
	if t.failures++; t.failures > q.policy.MaxFailures {
		t.discarded = true
		q.lost++
		q.settle()
		return true
	}
	q.todo = append(q.todo, i)
	return false
}

// timeout is the time that the next task may take.
func (q *Queue) timeout() time.Duration {
	if q.average == 0 {
		return q.policy.MaxTimeout
	}
	return min(max(TimeoutFactor*q.average, q.policy.MinTimeout), q.policy.MaxTimeout)
}

// Exhausted reports whether every task was discarded, so that nothing is left to train.
func (q *Queue) Exhausted() bool { return q.lost == len(q.tasks) }

// Counts is the length of each queue.
type Counts struct{ Pass, Todo, Pending, Done, Discarded int }

// Counts returns the length of each queue.
func (q *Queue) Counts() Counts {
	return Counts{Pass: q.pass, Todo: len(q.todo), Pending: len(q.pending), Done: q.done, Discarded: q.lost}
}
