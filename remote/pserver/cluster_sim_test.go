package pserver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/remote/pserver"
)

const (
	simRows   = 3 // of a global batch: with more members than that, some have no rows
	simRounds = 5 // that the data lasts
)

// A cluster is a simulated job: servers, each with the machine under test, trainers that die and are started again, and coordinators that crash and
// are replaced while the ones before them may still be speaking. Messages arrive in any order, are held, doubled, and their answers are lost.
type cluster struct {
	*testing.T
	rand     *rand.Rand
	servers  []*simServer
	exchange bool // servers need each other's partial sums to apply a round
	elastic  bool // whoever has joined trains; else all ranks do
	eager    bool // trainers are told of a generation before all servers have begun it
	trainers []*process
	limit    int
	next     int // number of the next process
	pool     []*simMessage
	past     []*simMessage // delivered, to arrive once more
	faults   int           // still to come
	lock     uint64        // fence of the coordinator that holds the lock
	leaders  []*leader     // the last one holds the lock; those before it do not know
	durable  decision
	log      map[uint64][]int // members of every generation that was decided
	applied  []round          // what each round was made of, by the first server that applied it
	joined   map[int]*process // that wait to be told of a generation, by rank
	ledger   pserver.Ledger
}

// A simMessage is a call of a server.
type simMessage struct {
	server int
	event  pserver.Event
	answer func(pserver.Decision, pserver.State)
}

// Whatever is lost, and whenever, all servers apply the same rounds, each made of the whole batch by the members of one generation that are the
// same everywhere, from what they sent in that generation; each batch counts once, and the job ends.
func TestServersAgree(t *testing.T) {
	histories := uint64(4000)
	if testing.Short() {
		histories = 500
	}
	for seed := range histories {
		newCluster(t, seed).run(seed)
	}
}

func newCluster(t *testing.T, seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &cluster{T: t, rand: r, exchange: r.IntN(2) == 0, elastic: r.IntN(2) == 0, limit: 1 + r.IntN(4), faults: r.IntN(12),
		log: map[uint64][]int{}, joined: map[int]*process{}}
	c.eager = r.IntN(2) == 0
	for i := range 1 + r.IntN(3) {
		names := []string{"a", "b"}[:r.IntN(3)]
		c.eager = c.eager && len(names) > 0
		c.servers = append(c.servers, &simServer{index: i, machine: pserver.NewRounds(c.limit, names), names: names, arrived: map[string]uint64{}})
	}
	for rank := range c.limit {
		c.start(rank)
	}
	c.elect()
	return c
}

// run lets things happen until the job has ended.
func (c *cluster) run(seed uint64) {
	for step := 0; !c.ended(); step++ {
		if step > 100_000 {
			c.Fatalf("seed %d: no end: %s", seed, c)
		}
		c.step()
		if c.Failed() {
			c.Fatalf("seed %d: %s", seed, c)
		}
	}
	for _, s := range c.servers {
		if n := s.machine.Round(); n != simRounds {
			c.Fatalf("seed %d: server %d has applied %d rounds, want %d", seed, s.index, n, simRounds)
		}
	}
	counts := c.ledger.Counts()
	if len(counts) != 1 || counts[0].Records != simRows*simRounds || counts[0].Again != 0 {
		c.Fatalf("seed %d: the ledger says %+v, want %d records once", seed, counts, simRows*simRounds)
	}
}

func (c *cluster) step() {
	switch n := c.rand.IntN(100); {
	case n < 60:
		c.deliver()
	case n < 75:
		c.servers[c.rand.IntN(len(c.servers))].finishRound(c)
	case n < 85:
		c.trainers[c.rand.IntN(c.limit)].act(c)
	case n < 93:
		c.leaders[len(c.leaders)-1-c.rand.IntN(min(2, len(c.leaders)))].act(c)
	case n < 96:
		c.again()
	case n < 97 && c.faults > 0:
		c.faults--
		c.fail()
	default: // sooner or later a trainer that died is started again, and in an elastic job perhaps not
		if t := c.trainers[c.rand.IntN(c.limit)]; t.dead && !t.left {
			c.start(t.rank)
		}
	}
}

// fail lets something break.
func (c *cluster) fail() {
	if c.rand.IntN(3) == 0 {
		c.elect()
		return
	}
	if t := c.trainers[c.rand.IntN(c.limit)]; !t.left {
		t.dead = true
		if c.joined[t.rank] == t {
			delete(c.joined, t.rank)
		}
	}
}

func (c *cluster) send(server int, e pserver.Event, answer func(pserver.Decision, pserver.State)) {
	c.pool = append(c.pool, &simMessage{server: server, event: e, answer: answer})
}

// deliver lets one message arrive. A message that is held stays under way, and so does one whose answer is lost: it is sent again.
func (c *cluster) deliver() {
	if len(c.pool) == 0 {
		return
	}
	i := c.rand.IntN(len(c.pool))
	m := c.pool[i]
	d := c.servers[m.server].take(c, m.event)
	if d.Verdict == pserver.Hold || c.rand.IntN(20) == 0 {
		return
	}
	c.pool[i] = c.pool[len(c.pool)-1]
	c.pool = c.pool[:len(c.pool)-1]
	c.past = append(c.past, m)
	m.answer(d, c.servers[m.server].machine.State())
}

// again lets a message arrive that was delivered before, however old.
func (c *cluster) again() {
	if len(c.past) > 0 {
		m := c.past[c.rand.IntN(len(c.past))]
		c.servers[m.server].take(c, m.event)
	}
}
