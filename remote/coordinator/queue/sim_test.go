package queue_test

import (
	"testing"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Messages are lost, late, doubled and reordered, coordinators crash before and after their commits and go on when they are deposed, trainers are
// killed, paused, drained and started again; whatever happens no task is lost or in two queues, the counters are right, a coordinator that was
// deposed grants nothing, and in the end each record was trained once per pass, or is discarded, except for what a trainer had applied that was lost
// before the ledger knew, and what went on being trained after its time was over.
func TestSimulation(t *testing.T) {
	simulate(t, *histories, func(seed uint64, tell bool) (map[string]int, error) {
		s := newSim(seed, tell)
		return s.seen, s.run()
	}, "crash before commit", "crash after commit", "crash between commits", "commit failed", "deposed commit refused", "message lost",
		"message doubled", "trainer killed",
		"trainer lost between update and ledger", "trainer paused", "trainer drained", "timed out", "task came back", "task discarded", "grace", "stale",
		"finish repeated",
		"request repeated", "pass ended", "file added", "several requests in a commit", "exact history", "exhausted")
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
	if n := len(s.leaders); n == 0 || s.leaders[n-1].fence != s.fence && s.random.IntN(10) == 0 || s.chance(60, "coordinator deposed") {
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
