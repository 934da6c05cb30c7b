package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// In sync mode, whatever happens to coordinators, messages and members, all trainers of a generation read the same batches, and each record is
// trained exactly once per pass, or is discarded.
func TestSyncSimulation(t *testing.T) {
	simulate(t, *histories/3, func(seed uint64, tell bool) (map[string]int, error) {
		s := newRounds(seed, tell)
		return s.seen, s.run()
	}, "crash before commit", "crash after commit", "crash between commits", "commit failed", "commit without the lock refused", "message lost",
		"message doubled", "coordinator loses its lock", "generation changes",
		"round committed by the freeze", "round dropped", "several tasks granted", "task failed", "task discarded",
		"pass ended", "file added", "regrouped", "waits", "exhausted")
}

// rounds is a history of a sync job: its coordinators, its parameter servers as one, and its trainers.
type rounds struct {
	chaos
	policy     queue.Policy
	batch      int
	follows    bool
	follow     int // files that are still to come
	files      []*rpc.DataFile
	poison     map[int64]bool
	store      store
	fence      uint64
	leaders    []*regent
	generation uint64
	members    []*reader
	zombies    []*reader // of generations that have ended
	round      id.Round  // rounds applied
	frozen     bool
	declared   map[int][]int64 // by rank, for the open round
	pass       int32           // of what is declared
	ledger     []map[int64]bool
	failures   map[int64]int // of each task in this pass, however many trainers say so
}

func newRounds(seed uint64, tell bool) *rounds {
	s := &rounds{chaos: newChaos(seed, tell), poison: map[int64]bool{}, store: store{}, declared: map[int][]int64{}, failures: map[int64]int{},
		frozen: true}
	s.policy = queue.Policy{Sync: true, Passes: 1 + s.random.IntN(3), RecordsPerTask: int64(1 + s.random.IntN(4)), Trainers: 2,
		MaxFailures: s.random.IntN(2), Epoch: epoch}
	s.batch = 1 + s.random.IntN(5)
	if s.random.IntN(4) == 0 {
		s.policy.Passes, s.follows, s.follow = 1, true, 1+s.random.IntN(3)
	}
	s.addFile()
	for range s.policy.Passes {
		s.ledger = append(s.ledger, map[int64]bool{})
	}
	return s
}

func (s *rounds) addFile() {
	first := int64(0)
	if n := len(s.files); n > 0 {
		first = s.files[n-1].FirstRecord + s.files[n-1].Records
	}
	s.files = append(s.files, &rpc.DataFile{Path: fmt.Sprintf("f%d", len(s.files)), FirstRecord: first, Records: int64(1 + s.random.IntN(12))})
	for r := first; r < first+s.files[len(s.files)-1].Records; r++ {
		s.poison[r] = s.random.IntN(25) == 0
	}
}

func (s *rounds) run() error {
	stormy := s.random.IntN(300)
	for i := 0; s.err == nil; i++ {
		if s.calm = i > stormy; i > stormy+20000 {
			s.fail("does not end: round %d, generation %d, %d members\n%s", s.round, s.generation, len(s.members), lines(s.store))
			break
		}
		s.now += 100 * time.Millisecond
		l := s.leader()
		if l == nil || s.chance(50, "coordinator loses its lock") {
			s.elect()
			continue
		}
		if l.queue != nil && l.queue.Ended() && (len(s.members) == 0 || !slices.ContainsFunc(s.members, func(m *reader) bool { return !m.ended })) {
			s.final(l.queue)
			break
		}
		switch {
		case s.frozen || s.chance(60, "generation changes"):
			l.change()
		case s.follow > 0 && s.random.IntN(10) == 0:
			s.note("file added")
			s.addFile()
			s.follow--
			l.step(queue.FilesAdded{Files: s.files})
		case s.follows && s.follow == 0 && l.queue.Following() && s.random.IntN(10) == 0:
			l.step(queue.FilesEnded{})
		case len(s.zombies) > 0 && s.random.IntN(4) == 0:
			s.zombies[s.random.IntN(len(s.zombies))].act()
		case len(s.members) > 0:
			s.members[s.random.IntN(len(s.members))].act()
		}
	}
	return s.err
}

// leader returns the coordinator that holds the lock.
func (s *rounds) leader() *regent {
	if n := len(s.leaders); n > 0 && s.leaders[n-1].fence == s.fence {
		return s.leaders[n-1]
	}
	return nil
}

// final compares the ledger with the discarded tasks.
func (s *rounds) final(q *queue.Queue) {
	status := q.Status()
	gone := int64(0)
	for pass := range q.Pass() + 1 {
		out := map[int64]bool{}
		for _, t := range status.DiscardedTasks {
			ranges := t.Records
			if t.Pass < pass {
				ranges = []*rpc.RecordRange{s.task(t.Id)}
			}
			for _, r := range ranges {
				for i := r.From; i < r.To && t.Pass <= pass; i++ {
					out[i] = true
				}
			}
		}
		gone += int64(len(out))
		if n := discardedIn(status, pass); n != int64(len(out)) {
			s.fail("%d records discarded in pass %d, and %d counted", len(out), pass, n)
		}
		if q.Exhausted() && pass == q.Pass() {
			continue
		}
		for r := range status.Records {
			if s.ledger[pass][r] == out[r] {
				s.fail("record %d of pass %d: trained: %v, discarded: %v", r, pass, s.ledger[pass][r], out[r])
			}
		}
	}
	if status.DiscardedRecords != gone {
		s.fail("%d records discarded, and %d counted", gone, status.DiscardedRecords)
	}
	if q.Exhausted() {
		s.note("exhausted")
	} else if int(q.Pass())+1 != s.policy.Passes || status.Done+status.Discarded == 0 || status.Todo+status.Pending > 0 {
		s.fail("ends with %v", status)
	}
}

// discardedIn counts the records that a pass leaves out, as Status tells them by pass.
func discardedIn(r *rpc.QueueStatus, pass int32) (n int64) {
	for _, d := range r.Discards {
		switch {
		case d.Pass == pass:
			n += d.Records
		case d.Pass < pass:
			n += d.Later
		}
	}
	return n
}

func (s *rounds) task(id int64) *rpc.RecordRange {
	c, _ := cutOf(s.store)
	return &rpc.RecordRange{From: c[id][0], To: c[id][1]}
}

// count keeps the failures of tasks, and checks that those and no others are discarded that have too many.
func (s *rounds) count(e queue.Event, before, after *queue.Queue) {
	switch e := e.(type) {
	case queue.TaskFailed:
		if !before.Regrouping() {
			s.failures[e.Task.Id]++
		}
	case queue.Regrouped:
		for _, t := range after.Status().DiscardedTasks {
			n, most := s.failures[t.Id], s.policy.MaxFailures+1
			if s.seen["crash between commits"] > 0 {
				most = n // the failure was durable and the wish for another generation was not: the failure is counted again
			}
			if t.Pass == after.Pass() && (n <= s.policy.MaxFailures || n > most || int(t.Failures) != n) {
				s.fail("discarded after %d failures: %v", n, t)
			}
		}
	}
	if before.Pass() != after.Pass() {
		clear(s.failures)
	}
}

// check holds after each event: a coordinator that starts now has the same queue, and what counts as done is in the ledger or discarded.
func (l *regent) check() {
	if l.fence != l.s.fence || l.s.random.IntN(8) > 0 {
		return
	}
	again, _, err := queue.Restore(l.s.policy, "d", l.s.store, l.s.now)
	if err != nil || again.Fingerprint() != l.queue.Fingerprint() {
		l.s.fail("%v\n%s\n%s\nwant\n%s", err, lines(l.s.store), again.Fingerprint(), l.queue.Fingerprint())
		return
	}
	r := again.Status()
	cut, _ := cutOf(l.s.store)
	if r.Todo+r.Pending+r.Done+r.Discarded != int64(len(cut)) || min(r.Todo, r.Pending, r.Done, r.Discarded) < 0 {
		l.s.fail("%v of %d tasks", r, len(cut))
	}
	done, gone := int64(0), map[int64]bool{}
	for _, t := range r.DiscardedTasks {
		gone[t.Id] = true
	}
	for id, records := range cut {
		missing := gone[int64(id)]
		for i := records[0]; i < records[1] && !missing; i++ {
			missing = !l.s.ledger[r.Pass][i]
		}
		if !missing {
			done++
		}
	}
	if r.Done > done {
		l.s.fail("%v, and %d of the tasks are done", r, done)
	}
}

// declare is a trainer's barrier.
func (s *rounds) declare(m *reader, pass int32, records []int64) bool {
	if s.frozen || m.generation != s.generation || m.round != s.round {
		return false
	}
	for rank, other := range s.declared {
		if s.pass != pass || !slices.Equal(other, records) {
			s.fail("trainer %d trains %v of pass %d in round %d, and trainer %d %v of pass %d", m.rank, records, pass, s.round, rank, other, s.pass)
		}
	}
	s.declared[m.rank], s.pass = records, pass
	if len(s.declared) == len(s.members) && s.random.IntN(3) > 0 {
		s.apply()
	}
	return true
}

// apply commits the open round: the ledger knows with it.
func (s *rounds) apply() {
	for _, records := range s.declared {
		for _, r := range records {
			if s.ledger[s.pass][r] {
				s.fail("record %d is trained twice in pass %d, again in round %d", r, s.pass, s.round)
			}
			if s.poison[r] {
				s.fail("record %d cannot be read, and was", r)
			}
			s.ledger[s.pass][r] = true
		}
		s.say("round %d: %v of pass %d", s.round, records, s.pass)
		break
	}
	s.round++
	clear(s.declared)
}

// freeze ends the generation: a round that all have declared counts, any other does not.
func (s *rounds) freeze() {
	if !s.frozen && len(s.declared) > 0 {
		if len(s.declared) == len(s.members) {
			s.note("round committed by the freeze")
			s.apply()
		} else {
			s.note("round dropped")
		}
	}
	s.frozen = true
	clear(s.declared)
}

func (s *rounds) committed(pass int32) ranges.Set {
	var list []ranges.Range
	for r, ok := range s.ledger[pass] {
		if ok {
			list = append(list, ranges.Range{From: r, To: r + 1})
		}
	}
	return ranges.Of(list...)
}
