package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// In sync mode, whatever happens to coordinators, messages and members, all trainers of a generation read the same batches, and each record is
// trained exactly once per pass, or is discarded.
func TestSyncSimulation(t *testing.T) {
	simulate(t, *histories/3, func(seed uint64, tell bool) (map[string]int, error) {
		s := newRounds(seed, tell)
		return s.seen, s.run()
	}, "crash before commit", "crash after commit", "crash between commits", "commit failed", "deposed commit refused", "message lost",
		"message doubled", "coordinator deposed", "generation changes",
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
	round      uint64    // rounds applied
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
		if l == nil || s.chance(50, "coordinator deposed") {
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
			l.step(queue.AddFiles{Files: s.files})
		case s.follows && s.follow == 0 && l.queue.Following() && s.random.IntN(10) == 0:
			l.step(queue.EndOfFiles{})
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
