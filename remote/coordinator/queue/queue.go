// Package queue is the task queue of one dataset: todo, pending, done and discarded tasks, pass after pass.
//
//	queue.go     policy, the machine and its state, what both modes share
//	event.go     events and effects
//	layout.go    files, and how they are divided into tasks
//	dispatch.go  async mode: tasks are dispatched to one trainer each
//	order.go     sync mode: all trainers read the same records; segments
//	back.go      on from an earlier position, after a pserver was lost
//	durable.go   the entries in etcd, and how a queue is restored
//	status.go    queries
//	tree.go      the ordered map that the state is made of
//
// A Queue is a pure state machine. Step takes an event and returns its effects: what to make durable, what to log, the answer. It has no clock and does
// no I/O; now is the time since Policy.Epoch. The server makes the changes durable before it answers. So it works on a copy: Clone, Step as often as
// there are requests, commit the changes; then the copy takes the place of the queue. A copy whose commit failed is thrown away. A copy costs nothing,
// whatever the size of the queue, because the parts of a queue are never changed in place.
//
// # Words
//
//   - A record has a number through all files of the dataset, from 0 on.
//   - A file group is the files that were reported together. A dataset that follows a folder has several.
//   - A task is a run of records of a group: task k follows from k and the list of files, so a task needs no memory and no entry of its own.
//   - The counters are how far a pass is: tasks below "given" were given to a trainer in this pass. They are the entry "head".
//   - A task has an entry while it is an exception: pending, come back, failed, or discarded.
//   - A segment (sync) says which batches rounds train, see type segment.
//
// So neither memory nor entries nor the time of an event grow with the number of tasks. No more than MaxStepChanges entries change with an event, except
// for files and for tasks that a lost trainer had. Invariants, in both modes and after every commit: each task is in exactly one state; what is not in
// the ledger of the pass is in a task that is not done; a task that failed more than MaxFailures times in a pass is discarded, in this pass and later.
//
// # Example, async
//
// Three files have 10 records: a has 0 to 3, b 4 to 6, c 7 to 9. With 3 records a task there are four tasks: 0 to 2, 3 to 5, 6 to 8, and 9. These are the
// entries below the dataset's key in etcd, as events change them:
//
//	New                           file/0 {a, 4 records, task_records 3}  file/1 {b}  file/2 {c}  head {given 0}
//	TaskWanted by trainer 0       task/0 {PENDING, trainer 0, dispatch 1}  rank/0 {granted task 0}  head {given 1}
//	TaskWanted by trainer 1       task/1 {PENDING, trainer 1, dispatch 1}  rank/1 {granted task 1}  head {given 2}
//	TaskFinished by trainer 0     task/0 deleted: below "given" and without an entry, so it is done
//	TrainerLost 1; the ledger     task/1 {RETURNED, left: records 4 and 5}  rank/1 {gone}
//	  has record 3
//	TaskWanted by 0, three times  tasks 2 and 3, which were never given; then task/1 {PENDING, trainer 0, dispatch 2}; head {given 4}
//	TaskFinished, all three       task/1, 2 and 3 deleted; head {pass 1, given 0}: the next pass begins
//
// # Example, sync
//
// The same dataset is read in batches of 2 records. A failed task is discarded at once (MaxFailures 0).
//
//	New                           files as above; segment/0 {pass 0, first round 0}; head {given 0, done 0}
//	TaskWanted at record 0, 4     tasks 0 and 1 are told to each trainer that asks; head {given 2}. No task has an entry: nobody has it
//	  records, by every trainer
//	TaskFinished 0                head {done 1}: rounds 0 and 1 have trained records 0 to 3
//	TaskFailed 1: record 4        task/1 {FAILED}; head {regroup}. The coordinator begins another generation, and asks the ledger
//	Regrouped, round 2; the       task/1 {DISCARDED, left: records 4 and 5}; segment/1 {first round 2, skip 0 to 5}; segment/0 deleted
//	  ledger has 0 to 3
//	TaskWanted at record 6        tasks 2 and 3: rounds 2 and 3 train records 6 to 9
//	TaskWanted in pass 1, by the  segment/2 {pass 1, first round 4, skip 3 to 5}; head {pass 1}. Segment 1 stays: round 3 may still be open
//	  first that gets there
//
// Both examples are scripts in testdata (example_async.txt, example_sync.txt), with all fields.
//
// # Begin and end of a job
//
// A job may begin within a pass (Policy.Start): its first segment then begins with a later batch. It may end before the end of its data (Stopped): then
// the queue says in every answer which round is not trained any more.
package queue

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/id"
)

// Policy says how a queue treats tasks. It is the same at every start of a job's coordinator, except for Epoch.
type Policy struct {
	Sync           bool
	Backup         bool          // sync: contributions may be dropped. A pass ends when the ledger has all its records
	Start          Position      // where the job begins
	Trained        ranges.Set    // records of Start.Pass that were trained before the first batch of Start, or left out
	Passes         int           // that end in this job, at least 1; a pass that Start lies in counts. A dataset that follows a folder has one
	Reading        Reading       // sync: as the program says
	RecordsPerTask int64         // 0: 16 tasks a pass for each of Trainers
	Trainers       int           // that the job asks for
	MaxFailures    int           // a task that failed or timed out more often in one pass is discarded
	MinTimeout     time.Duration // async: bounds of the time that a task may take, which is otherwise
	MaxTimeout     time.Duration // TimeoutFactor times the moving average of task times
	Epoch          time.Time     // to which now is relative; durable times are wall-clock
}

// A Position is a place in the data: between two batches of a pass. The zero value is the beginning. A place behind the last batch of a pass is the
// beginning of the next pass, see Policy.within.
type Position struct {
	Round id.Round // sync: that trains the next batch
	Pass  int32    // in which the next batch lies, from 0
	Batch uint64   // batches of that pass, without Policy.Trained, before the next one
}

// Reading says how a program makes batches of the records of a pass. It tells the queue which records the first batches of a pass have.
type Reading struct {
	Rows          int64 // records of a batch
	DropLast      bool  // a last batch that is smaller is left out
	ShuffleBuffer int   // records that are shuffled at a time; below 2: none
	ShuffleGroup  int   // of them, records that stay together; below 2: none
	ShuffleSeed   uint64
}

// batches returns how many batches a pass of so many records has.
func (r Reading) batches(records int64) uint64 {
	rows := max(1, r.Rows)
	if records%rows > 0 && !r.DropLast {
		return uint64(records/rows) + 1
	}
	return uint64(records / rows)
}

// Dataset is what a queue is made of.
type Dataset struct {
	Name      string
	Files     []*rpc.DataFile // in order; each begins with the record after the last one of the file before
	Following bool            // more files come, until FilesEnded
}

const (
	// TimeoutFactor is how many average task times a task may take.
	TimeoutFactor = 8
	// MaxStepChanges bounds the changes of an event, except FilesAdded, which has one more for each file, and TrainerLost, which has one more for each
	// task that the trainer had.
	MaxStepChanges = 4

	tasksPerTrainer = 16      // of a pass, where the job does not say how large a task is
	averageWeight   = 8       // the moving average moves by an eighth of the difference
	rememberedTasks = 32      // finished by a trainer, to know a repeated message by
	maxRank         = 1 << 16 // ranks are below
	maxFiles        = 1 << 22
	maxPath         = 4096
	maxReason       = 256     // bytes of a failure's reason
	maxRuns         = 1 << 15 // ranges in which what is left of a task is kept
	maxEntry        = 1 << 19 // bytes of a durable entry
	maxPast         = 64      // segments before the durable ones. Trainers are some rounds ahead of what is reported, and passes may be short
	maxGrant        = 1 << 16 // bytes of a grant that another task may be added to
)

// Queue is the task queue of one dataset. It is not for concurrent use.
type Queue struct {
	policy Policy
	name   string
	counters
	layout    layout
	pending   pendingTasks
	returned  tree[*task]    // by order of return
	discarded tree[*task]    // by task
	trainers  tree[*trainer] // by rank
	failed    tree[*task]    // sync, by task: failures of this pass
	segments  segments       // sync: at most two, the second of which begins a pass
	past      segments       // the last before them, at most maxPast; not durable, for Position only
}

// counters are what changes with most events. They are the entry "head"; the fields are those of state.Head.
type counters struct {
	pass      int32
	given     int64 // tasks below were given in this pass
	done      int64 // sync: tasks below are done
	following bool
	closed    bool
	ended     bool
	stopped   bool
	endRound  id.Round // sync, when stopped
	average   time.Duration
	returns   int64
	retried   int64
	regroup   bool
	opened    int64 // segments so far
	files     int
}

// task is a task of which the queue remembers something. It is never changed in place, like all that a tree has.
type task struct {
	id       int64
	pass     int32  // of the failures
	epoch    uint32 // of the last dispatch
	failures uint32
	reason   string
	left     ranges.Set // nil: all of it that was not trained before the job began
	returned int64
}

// pending is a task that a trainer has.
type pending struct {
	task
	rank       id.Rank
	since      id.Generation
	dispatched int64 // milliseconds since 1970
	deadline   int64
	grace      bool
}

// trainer is what the queue remembers of a trainer.
type trainer struct {
	since    id.Generation
	gone     bool
	request  uint64
	granted  dispatch
	finished []dispatch
}

type dispatch struct {
	pass  int32
	task  int64
	epoch uint32
}

// A mode is what differs between async and sync mode: tasks that are dispatched, and tasks that are read in order.
type mode interface {
	want(s *step, e TaskWanted) error
	finish(s *step, e TaskFinished) error
	fail(s *step, e TaskFailed) error
	// settle goes on after an event: to the next pass, or to the end of the data, when nothing is left.
	settle(s *step)
}

func (p Policy) mode() mode {
	if p.Sync {
		return ordered{}
	}
	return dispatched{}
}

// check refuses a start that cannot be.
func (p Policy) check() error {
	last := int64(p.Start.Pass) + int64(max(p.Passes, 1)) - 1
	if p.Start.Pass < 0 || last >= math.MaxInt32 {
		return fault.E(fault.InvalidArgument, fault.Gotf("passes %d to %d", p.Start.Pass, last), fault.Wantf("passes from 0 to %d", math.MaxInt32-1))
	}
	if p.Start.Batch > 0 && (p.Reading.Rows < 1 || p.Start.Batch > uint64(math.MaxInt64/p.Reading.Rows)) {
		return fault.E(fault.InvalidArgument, fault.Gotf("a start after %d batches of %d records", p.Start.Batch, p.Reading.Rows),
			fault.Want("batches of at least one record, which are all numbered"))
	}
	if p.Sync && len(p.Trained) > maxRuns {
		return fault.E(fault.TooLarge, fault.Gotf("%d ranges of records that were trained before", len(p.Trained)), fault.Wantf("at most %d", maxRuns))
	}
	return nil
}

// within returns p for a dataset of so many records: when no batch of the pass of Start is left, Start becomes the beginning of the next pass, and the
// pass that is over counts as none of Passes. This happens when files were removed since the position was saved. executor.FileSource has the same rule.
// A dataset that follows a folder has no size; there the position stays. What trainers are told before (FirstSegment) leads them to the same place: they
// find no batch in the pass, and ask for the next one. In async mode, which has no batches in order, the first ones become a part of Trained.
func (p Policy) within(records int64, following bool) Policy {
	if following {
		return p
	}
	p.Trained = p.Trained.Intersect(ranges.Set{{From: 0, To: records}})
	switch left := records - p.Trained.Count(); {
	case p.Start.Batch == 0 && len(p.Trained) == 0, p.Reading.Rows < 1:
	case p.Start.Batch >= p.Reading.batches(left):
		p.Start.Pass, p.Start.Batch, p.Trained = p.Start.Pass+1, 0, nil
	case !p.Sync:
		p = p.ByRecords(records)
	}
	return p
}

// ByRecords returns the policy of an async job that begins where a sync one was in a dataset that had so many records: async mode has no batches in order, so the
// first ones become a part of Trained.
func (p Policy) ByRecords(records int64) Policy {
	p.Trained, p.Start.Batch = p.trainedBefore(p.Start.Pass, records), 0
	return p
}

// Left returns which records of the pass in which a job begins it trains, of so many records.
func (p Policy) Left(records int64) ranges.Set {
	return ranges.Set{{From: 0, To: records}}.Without(p.trainedBefore(p.Start.Pass, records))
}

// lastPass is the pass that the job ends with.
func (p Policy) lastPass() int32 { return p.Start.Pass + int32(max(p.Passes, 1)-1) }

// New makes a queue in which all tasks from Policy.Start on are to be done, and the changes that make it durable.
func New(p Policy, d Dataset) (*Queue, Effects, error) {
	q := &Queue{policy: p, name: d.Name, counters: counters{following: d.Following}}
	s := &step{Queue: *q}
	if err := s.add(d.Files); err != nil {
		return nil, Effects{}, err
	}
	p = p.within(s.layout.records, d.Following)
	if err := p.check(); err != nil {
		return nil, Effects{}, inDataset(d.Name, err)
	}
	s.policy, s.pass = p, p.Start.Pass
	if s.layout.records == 0 && !d.Following {
		return nil, Effects{}, s.fault(fault.NotFound, "no records", "at least one")
	}
	if d.Following && p.Passes > 1 {
		return nil, Effects{}, s.fault(fault.InvalidArgument, fmt.Sprintf("%d passes over files that follow each other", p.Passes), "one")
	}
	if p.Sync {
		s.addSegment(p.firstSegment())
		s.done = s.layout.tasksIn(p.trainedBefore(s.pass, s.layout.records))
		s.given = s.done
	}
	if !p.Sync {
		p.mode().settle(s) // all of the pass may be trained
	}
	s.putHead()
	*q = s.Queue
	return q, Effects{Changes: s.all(), Notes: s.effects.Notes}, nil
}

// Clone returns a copy, whose steps leave q as it is.
func (q *Queue) Clone() *Queue {
	c := *q
	return &c
}

// Next returns when the next deadline of a task passes, and the event to send then. ok is false when no task has a deadline.
func (q *Queue) Next() (at time.Duration, e TaskTimedOut, ok bool) {
	p, ok := q.pending.first()
	if !ok {
		return 0, TaskTimedOut{}, false
	}
	return time.Duration(p.deadline-q.policy.Epoch.UnixMilli()) * time.Millisecond, TaskTimedOut{Pass: q.pass, Task: p.id, Epoch: p.epoch}, true
}

// Step lets an event happen at now. After an error nothing has changed.
func (q *Queue) Step(now time.Duration, e Event) (Effects, error) {
	s := &step{Queue: *q, now: q.policy.Epoch.UnixMilli() + now.Milliseconds()}
	if err := e.apply(s); err != nil {
		return Effects{}, err
	}
	s.policy.mode().settle(s)
	if s.counters != q.counters {
		s.putHead()
	}
	s.effects.Changes = s.all()
	s.effects.Exhausted = s.Exhausted() && !q.Exhausted()
	*q = s.Queue
	return s.effects, nil
}

// step is a copy of a queue to which an event happens.
type step struct {
	Queue
	changes
	now     int64 // milliseconds since 1970
	effects Effects
}

func (e TaskWanted) apply(s *step) error {
	if err := s.known(e.Rank, nil); err != nil {
		return err
	}
	return s.policy.mode().want(s, e)
}

func (e TaskFinished) apply(s *step) error {
	if err := s.known(e.Rank, e.Task); err != nil {
		return err
	}
	return s.policy.mode().finish(s, e)
}

func (e TaskFailed) apply(s *step) error {
	if err := s.known(e.Rank, e.Task); err != nil {
		return err
	}
	return s.policy.mode().fail(s, e)
}

func (e Stopped) apply(s *step) error {
	if s.policy.Sync && s.open() {
		e.End = min(e.End, behind(&s.Queue, s.layout.records)) // else the end would wait for a file
	}
	if s.stopped && (!s.policy.Sync || s.endRound <= e.End) {
		return nil
	}
	s.note("data stopped", nil, -1)
	if s.stopped = true; s.policy.Sync {
		s.endRound = e.End
	}
	return nil
}

// known refuses what cannot be a task or a rank.
func (s *step) known(rank id.Rank, t *rpc.Task) error {
	switch {
	case rank >= maxRank:
		return s.fault(fault.Foreign, fmt.Sprintf("trainer %d", rank), fmt.Sprintf("0 to %d", maxRank-1))
	case t != nil && (t.Id < 0 || t.Id >= s.layout.tasks):
		return s.fault(fault.NotFound, fmt.Sprintf("task %d", t.Id), fmt.Sprintf("0 to %d", s.layout.tasks-1))
	}
	return nil
}

// stale refuses word of a dispatch that is over, so that a late trainer cannot decide on a task that another one has by now.
func (s *step) stale(who string, d dispatch) error {
	want := "a task that it has"
	if p, ok := s.pending.byTask.get(key{d.task}); ok {
		want = fmt.Sprintf("dispatch %d of pass %d, which trainer %d has", p.epoch, s.pass, p.rank)
	}
	return s.fault(fault.Stale, fmt.Sprintf("word of task %d, dispatch %d of pass %d, from %s", d.task, d.epoch, d.pass, who), want)
}

func (q *Queue) fault(kind fault.Kind, got, want string) error {
	return fault.E(kind, fault.At("dataset "+fault.Quote(q.name)), fault.Got(got), fault.Want(want))
}

// inDataset adds the name of a dataset to an error.
func inDataset(name string, err error) error {
	return fault.Wrap(fault.KindOf(err), "dataset "+fault.Quote(name), err)
}

func (s *step) note(what string, t *task, rank int) {
	n := Note{What: what, Pass: s.pass, Task: -1, Rank: rank}
	if t != nil {
		n.Task, n.Failures, n.Reason = t.id, t.failures, t.reason
	}
	s.effects.Notes = append(s.effects.Notes, n)
}

// left returns the records of a task that are still to be trained.
func (q *Queue) left(t *task) ranges.Set {
	if t.left != nil {
		return t.left
	}
	return untrained(q, t.id)
}

// untrained returns the records of a task that were not trained before the job began.
func untrained(q *Queue, task int64) ranges.Set {
	whole := ranges.Set{q.layout.recordsOf(task)}
	if q.pass != q.policy.Start.Pass {
		return whole
	}
	return whole.Without(q.policy.Trained)
}

// discard puts a task away for good.
func (s *step) discard(t *task, rank int) {
	s.discarded = s.discarded.put(key{t.id}, t)
	s.putTask(t.id, t.entry(state.Task_DISCARDED))
	s.note("task discarded", t, rank)
}

// beginPass goes on to the next pass.
func (s *step) beginPass() {
	s.note("pass ended", nil, -1)
	s.pass++
	s.given, s.done = 0, 0
}

// open reports whether more files may come.
func (c *counters) open() bool { return c.following && !c.closed }

func (s *step) end() {
	if !s.ended {
		s.ended = true
		s.note("data ended", nil, -1)
	}
}

// shortReason shortens what a trainer says about a failure.
func shortReason(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.ToValidUTF8(s, "?")
}
