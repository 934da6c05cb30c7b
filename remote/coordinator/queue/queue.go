// Package queue is the task queue of one dataset: todo, pending, done and discarded tasks, pass after pass.
//
// A Queue is a pure state machine. Step takes an event and returns its effects: the answer, the durable changes, what the log should say. It has no
// clock and does no I/O; now is the time since Policy.Epoch. The server makes the changes durable before it answers, so it works on a
// copy: Clone, Step as often as there are requests, commit the changes, then the copy takes the place of the queue. A copy whose
// commit failed is thrown away. A copy costs nothing, whatever the queue holds: its parts are never changed in place.
//
// Tasks are arithmetic: task k is a run of records that follows from k and the list of files. A pass is a watermark, below which tasks have been
// given, and the few tasks that are pending, have come back or are discarded. So neither memory nor entries nor the time of an event grow with the
// number of tasks. No more than MaxStepChanges entries change with an event, except for files and for tasks that a lost trainer held.
//
// In async mode a task goes to one trainer, first come, first served, and comes back when that trainer fails, is lost, or takes too long. In sync
// mode all trainers read the same records in the same order: a task is what lies at a position, and what has to be remembered is how far was given,
// how far is done, and where in the rounds each run over the records began (Segment).
package queue

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Queue is the task queue of one dataset. It is not for concurrent use.
type Queue struct {
	policy Policy
	name   string
	head
	cut       cut
	pending   tree[*pending] // by task
	held      tree[int64]    // tasks, by rank and task
	deadlines tree[int64]    // tasks, by deadline and task
	returned  tree[*work]    // by order of return
	discarded tree[*work]    // by task
	ranks     tree[*rank]
	failed    tree[*work] // sync, by task: failures of this pass
	segments  []segment   // sync: at most two, the second of which begins a pass
}

// head is what changes with most events; the fields are those of state.Head.
type head struct {
	pass      int32
	given     int64
	done      int64
	following bool
	closed    bool
	ended     bool
	average   time.Duration
	returns   int64
	retried   int64
	regroup   bool
	opened    int64 // segments so far
	files     int
}

// work is a task of which something is to be remembered. It is never changed in place, like all that a tree holds.
type work struct {
	id       int64
	pass     int32  // of the failures
	epoch    uint32 // of the last dispatch
	failures uint32
	reason   string
	left     ranges.Set // nil: all of it
	returned int64
}

// pending is a task that a trainer has.
type pending struct {
	work
	rank        int
	incarnation uint64
	dispatched  int64 // milliseconds since 1970
	deadline    int64
	grace       bool
}

// rank is what is remembered of a trainer.
type rank struct {
	incarnation uint64
	gone        bool
	request     uint64
	granted     dispatch
	finished    []dispatch
}

type dispatch struct {
	pass  int32
	task  int64
	epoch uint32
}

type segment struct {
	number     int64
	pass       int32
	firstRound uint64
	skip       ranges.Set
}

// New makes a queue with all tasks to be done, and the changes that make it durable.
func New(p Policy, d Dataset) (*Queue, Effects, error) {
	q := &Queue{policy: p, name: d.Name, head: head{following: d.Following}}
	s := &step{Queue: *q}
	if err := s.add(d.Files); err != nil {
		return nil, Effects{}, err
	}
	if s.cut.records == 0 && !d.Following {
		return nil, Effects{}, s.fault(fault.NotFound, "no records", "at least one")
	}
	if d.Following && p.Passes > 1 {
		return nil, Effects{}, s.fault(fault.InvalidArgument, fmt.Sprintf("%d passes over files that follow each other", p.Passes), "one")
	}
	if p.Sync {
		s.begin(segment{})
	}
	s.putHead()
	*q = s.Queue
	return q, s.effects, nil
}

// Clone returns a copy, whose steps leave q as it is.
func (q *Queue) Clone() *Queue {
	c := *q
	return &c
}

// Next returns when the next deadline of a task passes, and what is to be said then. ok is false when no task has a deadline.
func (q *Queue) Next() (at time.Duration, e TaskTimedOut, ok bool) {
	k, id, ok := q.deadlines.first()
	if !ok {
		return 0, TaskTimedOut{}, false
	}
	p, _ := q.pending.get(key{id})
	return time.Duration(k[0]-q.policy.Epoch.UnixMilli()) * time.Millisecond, TaskTimedOut{Pass: q.pass, Task: id, Epoch: p.epoch}, true
}

// Policy says how a queue treats tasks. It is the same at every start of a job's coordinator, except for Epoch.
type Policy struct {
	Sync           bool
	Passes         int           // at least 1; a dataset that follows has one
	RecordsPerTask int64         // 0: 16 tasks a pass for each of Trainers
	Trainers       int           // that the job asks for
	MaxFailures    int           // a task that failed or timed out more often in one pass is discarded
	MinTimeout     time.Duration // async: bounds of the time that a task may take, which is otherwise
	MaxTimeout     time.Duration // TimeoutFactor times the moving average of task times
	Epoch          time.Time     // to which now is relative; durable times are wall-clock
}

// Dataset is what a queue is made of.
type Dataset struct {
	Name      string
	Files     []*rpc.DataFile // in order; each begins with the record after the last one of the file before
	Following bool            // more files come, until EndOfFiles
}

const (
	// TimeoutFactor is how many average task times a task may take.
	TimeoutFactor = 8
	// MaxStepChanges bounds the changes of an event, except AddFiles, where there is one more for each file, and Lost, where there is one more for each
	// task that the trainer held.
	MaxStepChanges = 4

	tasksPerTrainer = 16      // of a pass, where the job does not say how large a task is
	averageWeight   = 8       // the moving average moves by an eighth of the difference
	rememberedTasks = 32      // finished by a rank, to know a repeated message by
	maxRank         = 1 << 16 // beyond which ranks are not believed
	maxFiles        = 1 << 22
	maxPath         = 4096
	maxReason       = 256     // bytes of a failure's reason
	maxRuns         = 1 << 15 // parts in which what is left of a task is kept
	maxEntry        = 1 << 19 // bytes of a durable entry
	maxGrant        = 1 << 16 // bytes of a grant that another task may be added to
)

// Step lets an event happen at now. After an error nothing has changed.
func (q *Queue) Step(now time.Duration, e Event) (Effects, error) {
	s := &step{Queue: *q, now: q.policy.Epoch.UnixMilli() + now.Milliseconds()}
	if err := e.apply(s); err != nil {
		return Effects{}, err
	}
	s.settle()
	if s.head != q.head {
		s.putHead()
	}
	s.effects.Changes = append(s.effects.Changes, s.late...)
	s.effects.Exhausted = s.Exhausted() && !q.Exhausted()
	*q = s.Queue
	return s.effects, nil
}

// step is a copy of a queue to which an event happens.
type step struct {
	Queue
	now     int64 // milliseconds since 1970
	effects Effects
	late    []Change // deletions of what the head does not need any more
}

func (s *step) note(what string, w *work, rank int) {
	n := Note{What: what, Pass: s.pass, Task: -1, Rank: rank}
	if w != nil {
		n.Task, n.Failures, n.Reason = w.id, w.failures, w.reason
	}
	s.effects.Notes = append(s.effects.Notes, n)
}

func (q *Queue) fault(kind fault.Kind, got, want string) error {
	return fault.E(kind, fault.At("dataset "+fault.Quote(q.name)), fault.Got(got), fault.Want(want))
}

// known refuses what cannot be a task or a rank.
func (q *Queue) known(rank int, t *rpc.Task) error {
	switch {
	case rank < 0 || rank >= maxRank:
		return q.fault(fault.Foreign, fmt.Sprintf("trainer %d", rank), fmt.Sprintf("0 to %d", maxRank-1))
	case t != nil && (t.Id < 0 || t.Id >= q.cut.tasks):
		return q.fault(fault.NotFound, fmt.Sprintf("task %d", t.Id), fmt.Sprintf("0 to %d", q.cut.tasks-1))
	}
	return nil
}

// settle ends the pass, and the data, when nothing is left, also when the last task was discarded.
func (s *step) settle() {
	if s.policy.Sync {
		s.settleSync()
	} else {
		s.settleAsync()
	}
}

func (q *Queue) isDiscarded(id int64) bool {
	_, ok := q.discarded.get(key{id})
	return ok
}

// open reports whether more files may come.
func (q *Queue) open() bool { return q.following && !q.closed }

func (s *step) end() {
	if !s.ended {
		s.ended = true
		s.note("data ended", nil, -1)
	}
}

// maxListed bounds the discarded tasks that Status names.
const maxListed = 1000

// Status tells the length of each queue and what was discarded. Its time grows with the number of discarded tasks.
func (q *Queue) Status() *rpc.QueueStatus {
	r := &rpc.QueueStatus{Dataset: q.name, Pass: q.pass, Passes: int32(max(q.policy.Passes, 1)), Records: q.cut.records, Retried: q.retried,
		Following: q.open(), Pending: int64(q.pending.len), Discarded: int64(q.discarded.len)}
	r.Todo = q.cut.tasks - q.given + int64(q.returned.len)
	r.Done = q.given - int64(q.returned.len) - r.Pending
	if q.policy.Sync {
		r.Done, r.Pending = q.done, q.given-q.done
	}
	for k, w := range q.discarded.from(key{}) {
		switch {
		case k[0] >= q.given:
			r.Todo--
		case q.policy.Sync && k[0] >= q.done:
			r.Pending--
		default:
			r.Done--
		}
		whole := q.cut.task(w.id)
		r.DiscardedRecords += q.left(w).Count() + int64(q.pass-w.pass)*(whole.To-whole.From)
		if len(r.DiscardedTasks) < maxListed {
			r.DiscardedTasks = append(r.DiscardedTasks, &rpc.DiscardedTask{Id: w.id, Pass: w.pass, Records: wire.Ranges(q.left(w)), Failures: w.failures,
				Reason: w.reason})
		}
	}
	return r
}

// Exhausted reports whether every task was discarded, so that nothing is left to train.
func (q *Queue) Exhausted() bool {
	return q.cut.tasks > 0 && int64(q.discarded.len) == q.cut.tasks && !q.open()
}

// Ended reports whether all passes are done.
func (q *Queue) Ended() bool { return q.ended }

// Pass returns the current pass: the one whose ledger an event needs.
func (q *Queue) Pass() int32 { return q.pass }

// Name returns the name of the dataset.
func (q *Queue) Name() string { return q.name }

// Files returns the files of the dataset, in order. They must not be changed.
func (q *Queue) Files() []*rpc.DataFile { return q.cut.files }

// Following reports whether more files may come: until EndOfFiles, for a dataset that follows.
func (q *Queue) Following() bool { return q.open() }

// Holders returns the ranks that have pending tasks, in order.
func (q *Queue) Holders() (ranks []int) {
	for k := range q.held.from(key{}) {
		if n := len(ranks); n == 0 || ranks[n-1] != int(k[0]) {
			ranks = append(ranks, int(k[0]))
		}
	}
	return ranks
}
