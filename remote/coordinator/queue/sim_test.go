package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// Messages are lost, late, doubled and reordered, coordinators crash before and after their commits and go on when they have lost their lock, trainers are
// killed, paused, drained and started again; whatever happens no task is lost or in two queues, the counters are right, a coordinator that has
// lost its lock grants nothing, and in the end each record was trained once per pass, or is discarded, except for what a trainer had applied that was lost
// before the ledger knew, and what went on being trained after its time was over. This holds for what the parameters have, also where pservers are lost and the
// job goes back to a checkpoint.
func TestSimulation(t *testing.T) {
	simulate(t, *histories, func(seed uint64, tell bool) (map[string]int, error) {
		s := newSim(seed, tell)
		return s.seen, s.run()
	}, "crash before commit", "crash after commit", "crash between commits", "commit failed", "commit without the lock refused", "message lost",
		"message doubled", "trainer killed",
		"trainer lost between update and ledger", "trainer paused", "trainer drained", "timed out", "task came back", "task discarded", "grace", "stale",
		"finish repeated",
		"request repeated", "pass ended", "file added", "several requests in a commit", "exact history", "exhausted", "checkpoint", "pserver lost", "goes back", "all begin again",
		"exact after going back")
}

// sim is one history.
type sim struct {
	chaos
	careful bool // checks more, which takes long
	policy  queue.Policy
	follows bool
	follow  int             // files that are still to come
	files   []*rpc.DataFile // that are there
	marked  bool            // no more come
	poison  map[int64]bool  // records that no trainer can read
	store   store
	fence   uint64 // of the coordinator that holds the lock
	least   uint64 // of the coordinator that the history has begun with; who trains in it knows that
	leaders []*leader
	next    uint64 // incarnation
	trainer []*process
	zombies []*process
	since   []uint64 // of each rank, the incarnation whose messages the parameter servers take
	net     []message

	ledger   []map[int64]bool // by pass: records
	applied  []map[int64]int
	excuse   []map[int64]int // how often a record may be trained beyond once
	failures map[int64]uint32
	pass     int32               // of failures
	cut      *simCut             // the last one; nil: there is none
	granted  map[string]*process // to whom each dispatch went
	graces   map[string]int      // how often a dispatch was given more time
}

func newSim(seed uint64, tell bool) *sim {
	s := &sim{chaos: newChaos(seed, tell), careful: seed%8 == 0 || tell, poison: map[int64]bool{}, store: store{}, failures: map[int64]uint32{},
		granted: map[string]*process{}, graces: map[string]int{}}
	s.policy = queue.Policy{Passes: 1 + s.random.IntN(3), RecordsPerTask: int64(1 + s.random.IntN(4)), Trainers: 2, MaxFailures: s.random.IntN(3),
		MinTimeout: 5 * time.Second, MaxTimeout: 60 * time.Second, Epoch: epoch}
	if s.random.IntN(4) == 0 {
		s.policy.Passes, s.follows, s.follow = 1, true, s.random.IntN(3)
	}
	s.addFile()
	for range s.policy.Passes {
		s.ledger, s.applied, s.excuse = append(s.ledger, map[int64]bool{}), append(s.applied, map[int64]int{}), append(s.excuse, map[int64]int{})
	}
	for rank := range 1 + s.random.IntN(3) {
		s.since = append(s.since, 0)
		s.trainer = append(s.trainer, s.process(rank))
	}
	return s
}

// run lets things happen, first bad ones, too, until all data have been trained.
func (s *sim) run() error {
	stormy := 30 + s.random.IntN(150)
	for i := 0; s.err == nil; i++ {
		if s.calm = i > stormy; i > stormy+20000 {
			s.fail("does not end:\n%s", lines(s.store))
			break
		}
		if s.ended() {
			s.final()
			break
		}
		s.happen()
	}
	return s.err
}

// happen is one step of one of those who take part.
func (s *sim) happen() {
	if n := len(s.leaders); n == 0 || s.leaders[n-1].fence != s.fence && s.random.IntN(10) == 0 || s.chance(60, "coordinator loses its lock") {
		s.elect()
		return
	}
	switch n := s.random.IntN(10); {
	case n < 3 && len(s.net) > 0:
		s.deliver()
	case n < 8:
		s.anyTrainer().act()
	case n < 9:
		s.now += time.Duration(s.random.IntN(3000)) * time.Millisecond
		if s.chance(12, "a long time passes") || s.calm && len(s.net) == 0 {
			s.now += 20 * time.Second
		}
		l := s.leaders[s.random.IntN(len(s.leaders))]
		l.timers()
	default:
		s.world()
	}
}

func (s *sim) ended() bool {
	if len(s.leaders) == 0 {
		return false
	}
	l := s.leaders[len(s.leaders)-1]
	return l.queue != nil && l.queue.Ended()
}

// check holds after every commit: every task is in one queue, with what is not in the ledger of it, and the counters are right.
func (s *sim) check() {
	d, ok := s.durable()
	if !ok {
		if _, exists := s.store["head"]; exists {
			s.fail("cannot be read:\n%s", lines(s.store))
		}
		return
	}
	if d.head.Pass != s.pass {
		s.pass = d.head.Pass
		clear(s.failures)
	}
	var pending, returned, discarded, done int64
	for i := range d.cut {
		id := int64(i)
		t := d.tasks[id]
		left := map[int64]bool{}
		switch place := t.GetPlace(); {
		case place == state.Task_DISCARDED:
			if discarded++; t.Pass != d.head.Pass {
				continue
			}
			left = d.left(id)
		case id >= d.head.Given && t == nil:
			continue
		case id >= d.head.Given:
			s.fail("task %d was not given and is %v", id, t)
		case place == state.Task_PENDING:
			pending++
			left = d.left(id)
		case place == state.Task_RETURNED:
			returned++
			left = d.left(id)
		default:
			done++
		}
		if t != nil && t.Failures != s.failures[id] {
			s.fail("task %d has %d failures, and the entry %v", id, s.failures[id], t)
		}
		if over := s.failures[id] > uint32(s.policy.MaxFailures); t != nil && over != (t.Place == state.Task_DISCARDED) {
			s.fail("task %d has %d failures, and is %v", id, s.failures[id], t)
		}
		for r := d.cut[id][0]; r < d.cut[id][1]; r++ {
			if !left[r] && !s.ledger[d.head.Pass][r] {
				s.fail("record %d of task %d is lost: in no queue, and not in the ledger:\n%s", r, id, lines(s.store))
			}
		}
	}
	if left := int64(len(d.cut)) - done - discarded; left == 0 && !d.head.Ended && (!d.head.Following || d.head.Closed) {
		s.fail("nothing is left of pass %d, and it has not ended:\n%s", d.head.Pass, lines(s.store))
	}
	q, _, err := queue.Restore(s.policy, "d", s.store, s.now)
	if err != nil {
		s.fail("%v\n%s", err, lines(s.store))
		return
	}
	if r := q.Status(); r.Pending != pending || r.Discarded != discarded || r.Done != done || r.Todo != int64(len(d.cut))-pending-discarded-done {
		s.fail("%v, and the store has %d pending, %d returned, %d discarded, %d done of %d:\n%s", r, pending, returned, discarded, done, len(d.cut),
			lines(s.store))
	}
}

// final counts how often each record was trained.
func (s *sim) final() {
	q := s.leaders[len(s.leaders)-1].queue
	d, _ := s.durable()
	if s.follow == 0 && s.marked && len(s.files) != int(d.head.Files) {
		s.fail("%d of %d files", d.head.Files, len(s.files))
	}
	exact := true
	discarded := int64(0)
	for pass := range q.Pass() + 1 {
		out := map[int64]bool{}
		for _, t := range q.Status().DiscardedTasks {
			switch {
			case t.Pass > pass:
			case t.Pass < pass:
				for r := d.cut[t.Id][0]; r < d.cut[t.Id][1]; r++ {
					out[r] = true
				}
			default:
				for r := range d.left(t.Id) {
					out[r] = true
				}
			}
		}
		discarded += int64(len(out))
		if n := discardedIn(q.Status(), pass); n != int64(len(out)) {
			s.fail("%d records discarded in pass %d, and %d counted", len(out), pass, n)
		}
		for r := range d.cut[len(d.cut)-1][1] {
			n, most := s.applied[pass][r], 1+s.excuse[pass][r]
			least := 1
			if out[r] {
				least, most = 0, most-1
			}
			if n < least || n > most {
				s.fail("record %d was trained %d times in pass %d, want %d to %d", r, n, pass, least, most)
			}
			exact = exact && s.excuse[pass][r] == 0
		}
	}
	if n := q.Status().DiscardedRecords; n != discarded {
		s.fail("%d records discarded, and %d counted", discarded, n)
	}
	if exact {
		s.note("exact history")
	}
	if exact && s.seen["pserver lost"] > 0 {
		s.note("exact after going back")
	}
	if !q.Exhausted() && int(q.Pass())+1 != int(s.policy.Start.Pass)+s.policy.Passes {
		s.fail("ends in pass %d of %d", q.Pass(), s.policy.Passes)
	}
}

// committed is what the ledger knows of a pass.
func (s *sim) committed(pass int32) ranges.Set {
	var list []ranges.Range
	for r, ok := range s.ledger[pass] {
		if ok {
			list = append(list, ranges.Range{From: r, To: r + 1})
		}
	}
	return ranges.Of(list...)
}

// expect says what an event has to do to the counters and to the account of records when it becomes durable.
func (s *sim) expect(e queue.Event) func([]queue.Change) {
	d, ok := s.durable()
	if !ok {
		return nil
	}
	again := func(id int64) {
		for r := range d.left(id) {
			if !s.ledger[d.head.Pass][r] {
				s.excuse[d.head.Pass][r]++
			}
		}
	}
	return func(changes []queue.Change) {
		happened := func(id int64) bool {
			return slices.ContainsFunc(changes, func(c queue.Change) bool { return c.Key == fmt.Sprintf("task/%d", id) })
		}
		switch e := e.(type) {
		case queue.TaskFailed:
			s.failures[e.Task.Id]++
		case queue.TaskTimedOut:
			s.note("timed out")
			s.failures[e.Task]++
			again(e.Task)
		case queue.TrainerLost:
			for number, t := range d.tasks {
				if t.Place != state.Task_PENDING || id.Rank(t.Rank) != e.Rank || id.Generation(t.Incarnation) > e.Since || !happened(number) {
					continue
				}
				progress := false
				for r := range d.left(number) {
					progress = progress || s.ledger[d.head.Pass][r]
				}
				if !progress && !e.Drained {
					s.failures[number]++
				}
			}
		}
	}
}

// mayGrant checks that a coordinator that gives a task holds the lock, and that the task is that trainer's.
func (s *sim) mayGrant(l *leader, m message) {
	d, _ := s.durable()
	t := d.tasks[m.grant.Task.Id]
	if l.fence != s.fence || m.to.gone || t == nil || t.Place != state.Task_PENDING || t.Epoch != m.grant.Task.Epoch || int(t.Rank) != m.to.rank ||
		t.Incarnation != m.to.incarnation {
		s.fail("coordinator %d of %d gives trainer %d.%d task %v, which is %v", l.fence, s.fence, m.to.rank, m.to.incarnation, m.grant.Task, t)
	}
}

// revived checks that a pending task whose time passed while there was no coordinator is given a little more, once.
func (s *sim) revived(changes []queue.Change) {
	for _, c := range changes {
		t := &state.Task{}
		if err := proto.Unmarshal(c.Value, t); err != nil {
			s.fail("%s: %v", c.Key, err)
		}
		if !strings.HasPrefix(c.Key, "task/") || c.Value == nil {
			continue // cleared away
		}
		s.note("grace")
		name := fmt.Sprintf("%s of pass %d, dispatch %d", c.Key, s.pass, t.Epoch)
		if s.graces[name]++; s.graces[name] > 1 || t.DeadlineMs != s.policy.Epoch.Add(s.now+s.policy.MinTimeout).UnixMilli() {
			s.fail("%s is given more time the %dth time at %v: %v", name, s.graces[name], s.now, t)
		}
	}
}

// durable is what the store holds, read without the queue's own code.
type durable struct {
	head    *state.Head
	tasks   map[int64]*state.Task
	cut     [][2]int64 // records of each task
	trained ranges.Set // of the current pass, before the history
}

func (s *sim) durable() (d durable, ok bool) {
	d = durable{head: &state.Head{}, tasks: map[int64]*state.Task{}}
	if b, ok := s.store["head"]; !ok || proto.Unmarshal(b, d.head) != nil {
		return d, false
	}
	if d.cut, ok = cutOf(s.store); !ok {
		return d, false
	}
	if d.head.Pass == s.policy.Start.Pass {
		d.trained = s.policy.Trained
	}
	for k, v := range s.store {
		if id, found := strings.CutPrefix(k, "task/"); found {
			t, n := &state.Task{}, int64(0)
			if _, err := fmt.Sscan(id, &n); err != nil || proto.Unmarshal(v, t) != nil {
				return d, false
			}
			d.tasks[n] = t
		}
	}
	return d, true
}

// cutOf reads the records of each task from the entries of files.
func cutOf(s store) (cut [][2]int64, ok bool) {
	h, size := &state.Head{}, int64(0)
	if proto.Unmarshal(s["head"], h) != nil {
		return nil, false
	}
	for i := range h.Files {
		f := &state.File{}
		if proto.Unmarshal(s[fmt.Sprintf("file/%d", i)], f) != nil {
			return nil, false
		}
		from, to := f.File.FirstRecord, f.File.FirstRecord+f.File.Records
		if n := len(cut); f.TaskRecords == 0 && n > 0 { // the last task goes on in this file
			from = cut[n-1][0]
			cut = cut[:n-1]
		}
		for size = max(size, f.TaskRecords); from < to; from += size {
			cut = append(cut, [2]int64{from, min(from+size, to)})
		}
	}
	return cut, true
}

// left returns the records that a task's entry says are to be trained.
func (d durable) left(id int64) map[int64]bool {
	out, runs := map[int64]bool{}, []int64{d.cut[id][0], d.cut[id][1] - d.cut[id][0]}
	if t := d.tasks[id]; t != nil && len(t.Runs) > 0 {
		runs = t.Runs
	}
	for i, at := 0, int64(0); i < len(runs); i += 2 {
		for r := at + runs[i]; r < at+runs[i]+runs[i+1]; r++ {
			if d.tasks[id].GetRuns() != nil || !d.trained.Has(r) {
				out[r] = true
			}
		}
		at += runs[i] + runs[i+1]
	}
	return out
}
