package pserver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

const (
	simRows   = 3 // of a global batch: with more members than that, some have no rows
	simRounds = 5 // that the data lasts
)

// A cluster is a simulated job. Its servers have the machine under test. Its trainers die and are started again. Its coordinators crash and are
// replaced, while the ones before them may still send messages. Messages arrive in any order, some are held, some come twice, and some answers are
// lost.
type cluster struct {
	*testing.T
	rand     *rand.Rand
	servers  []*simServer
	exchange bool // servers need each other's partial sums to apply a round
	elastic  bool // whoever has joined trains; else all ranks do
	eager    bool // trainers are told of a generation before all servers have begun it
	trainers []*process
	limit    int
	backup   int // contributions that a round may lack
	next     int // number of the next process
	pool     []*simMessage
	past     []*simMessage // delivered, to arrive once more
	faults   int           // still to come
	lock     id.Fence      // fence of the coordinator that holds the lock
	leaders  []*leader     // the last one holds the lock; those before it do not know
	durable  decision
	log      map[id.Generation][]id.Rank // members of all decided generations
	applied  []round                     // what each round was made of, by the first server that applied it
	joined   map[id.Rank]*process        // that wait to be told of a generation, by rank
	ledger   pserver.Ledger
	start    id.Round // that the job starts at
	back     way
	moves    int // to other servers
	totals   int // places at which trainers share totals
	shared   int // answers to those who share
}

// A simMessage is a call of a server.
type simMessage struct {
	server int
	event  pserver.Event
	answer func(pserver.Effects, error, pserver.State)
}

// Whatever is lost, and whenever: all servers apply the same rounds. Each round is made of a whole batch, by all members of one generation, from what
// they sent in that generation. Each batch counts once, and the job ends.
func TestServersAgree(t *testing.T) {
	histories := uint64(4000)
	if testing.Short() {
		histories = 500
	}
	moves, shared := 0, 0
	for seed := range histories {
		c := newCluster(t, seed)
		c.run(seed)
		moves, shared = moves+c.moves, shared+c.shared
	}
	if shared < int(histories) {
		t.Errorf("in %d histories trainers are told totals only %d times", histories, shared)
	}
	if moves < int(histories)/10 {
		t.Errorf("in %d histories the state moves only %d times", histories, moves)
	}
}

func newCluster(t *testing.T, seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &cluster{T: t, rand: r, exchange: r.IntN(2) == 0, elastic: r.IntN(2) == 0, limit: 1 + r.IntN(4), faults: r.IntN(12),
		log: map[id.Generation][]id.Rank{}, joined: map[id.Rank]*process{}, start: []id.Round{0, 41}[r.IntN(2)], back: way{ledgers: map[id.Round][]byte{}}}
	c.eager = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		c.backup = r.IntN(c.limit)
	}
	if c.backup == 0 {
		c.totals = int(seed) % 3
	}
	for i := range 1 + r.IntN(3) {
		names := []string{"a", "b"}[:r.IntN(3)]
		c.eager = c.eager && len(names) > 0
		c.servers = append(c.servers, &simServer{index: i, machine: pserver.WithBackups(pserver.NewRounds(c.limit, names, c.start), c.backup, i == 0), names: names,
			arrived: map[string]id.Generation{}, begun: c.start})
	}
	for rank := range c.limit {
		c.launch(id.Rank(rank))
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
		if n := s.machine.Round(); n != c.start+simRounds {
			c.Fatalf("seed %d: server %d has applied %d rounds, want %d", seed, s.index, n-c.start, simRounds)
		}
	}
	records := int64(simRows * simRounds)
	if c.backup > 0 { // what was dropped is not in the ledger
		records = 0
		for _, r := range c.applied {
			records += r.rows
		}
	}
	counts := c.ledger.Counts()
	if len(counts) != 1 || counts[0].Records != records || counts[0].Again != 0 {
		c.Fatalf("seed %d: the ledger says %+v, want %d records once", seed, counts, records)
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
	case n < 98 && c.faults > 0:
		c.faults--
		c.loseServer()
	default: // sooner or later a trainer that died is started again, and in an elastic job perhaps not
		if t := c.trainers[c.rand.IntN(c.limit)]; t.dead && !t.left {
			c.launch(t.rank)
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

func (c *cluster) send(server int, e pserver.Event, answer func(pserver.Effects, error, pserver.State)) {
	c.pool = append(c.pool, &simMessage{server: server, event: e, answer: answer})
}

// deliver lets one message arrive. A message that is held stays under way, and so does one whose answer is lost: it is sent again.
func (c *cluster) deliver() {
	if len(c.pool) == 0 {
		return
	}
	i := c.rand.IntN(len(c.pool))
	m := c.pool[i]
	f, err := c.servers[m.server].take(c, m.event)
	if f.Hold || c.rand.IntN(20) == 0 {
		return
	}
	c.pool[i] = c.pool[len(c.pool)-1]
	c.pool = c.pool[:len(c.pool)-1]
	c.past = append(c.past, m)
	m.answer(f, err, c.servers[m.server].machine.State())
}

// again lets a message arrive that was delivered before, however old.
func (c *cluster) again() {
	if len(c.past) > 0 {
		m := c.past[c.rand.IntN(len(c.past))]
		_, _ = c.servers[m.server].take(c, m.event) // nobody reads the answer
	}
}

// A round is what a server applied.
type round struct {
	generation id.Generation
	shares     []string
	rows       int64
}

type simServer struct {
	index    int
	machine  *pserver.Rounds
	names    []string
	arrived  map[string]id.Generation // generations of the contributions in the inbox, by name and rank
	busy     bool                     // applying a round
	arrives  bool                     // what it applies are rows of the servers before
	begun    id.Round                 // rounds that were applied or are being applied
	finished bool
}

func slot(name string, rank id.Rank) string { return fmt.Sprint(name, " of ", rank) }

// take lets the machine decide on a message, and carries out what follows.
func (s *simServer) take(c *cluster, e pserver.Event) (pserver.Effects, error) {
	f, err := s.machine.Step(0, e)
	if err != nil && fault.KindOf(err) == fault.Internal {
		c.Errorf("server %d, %+v: %v", s.index, e, err)
	}
	if e, ok := e.(pserver.Received); ok && err == nil && !f.Hold && !f.Ignore {
		if at := slot(e.Variable, e.Rank); s.arrived[at] != 0 {
			c.Errorf("server %d takes %s twice", s.index, at)
		} else {
			s.arrived[at] = e.Generation
		}
	}
	if e, ok := e.(pserver.Restored); ok && err == nil {
		s.restored(c, e)
	}
	s.carryOut(c, f)
	return f, err
}

func (s *simServer) carryOut(c *cluster, f pserver.Effects) {
	for _, d := range f.Commit {
		if s.index == 0 {
			if err := c.ledger.Commit(0, d.Records); err != nil {
				c.Error(err)
			}
		}
	}
	if f.Drop {
		clear(s.arrived)
	}
	s.finished = s.finished || f.Finished
	if !f.Apply {
		return
	}
	if s.busy || s.begun != s.machine.Round() {
		c.Errorf("server %d begins round %d after %d", s.index, s.machine.Round(), s.begun)
	}
	s.busy, s.begun = true, s.begun+1
	s.check(c, f.Contributors)
}

// check compares a round with what it must be made of.
func (s *simServer) check(c *cluster, from []pserver.Declaration) {
	r := round{}
	show := func(d pserver.Declaration) string {
		if c.backup > 0 && s.index > 0 { // a decision has no records
			d.Records = nil
		}
		return fmt.Sprint(d.Pass, ":", d.Rank, ":", d.Rows, ":", d.Hour, ":", d.Records)
	}
	counts := map[id.Rank]bool{}
	for _, m := range s.machine.State().Applied {
		r.generation = id.Generation(m.Pass) // trainers say here in which generation they are
		m.Records = slices.Clone(m.Records)
		r.shares, r.rows, counts[m.Rank] = append(r.shares, show(m)), r.rows+m.Rows, true
	}
	var want []string
	members, missing := c.log[r.generation], 0
	for position, rank := range members {
		if c.backup > 0 && !counts[rank] {
			missing++
			continue
		}
		want = append(want, show(simShare(s.machine.Round(), r.generation, rank, position, len(members))))
	}
	if missing > c.backup || r.rows == 0 {
		c.Errorf("server %d applies round %d with %d rows, without %d trainers", s.index, s.machine.Round(), r.rows, missing)
	}
	if fmt.Sprint(r.shares) != fmt.Sprint(want) {
		c.Errorf("server %d applies round %d made of %v, want %v", s.index, s.machine.Round(), r.shares, want)
	}
	if applied, contributed := pserver.HourOf(s.machine.State().Applied), pserver.HourOf(from); applied != contributed {
		c.Errorf("server %d applies round %d in hour %d, its standby in hour %d", s.index, s.machine.Round(), contributed, applied)
	}
	for _, share := range from {
		for _, name := range s.names {
			if got := s.arrived[slot(name, share.Rank)]; got != r.generation {
				c.Errorf("server %d applies round %d of generation %d with %s of trainer %d that was sent in generation %d", s.index, s.machine.Round(),
					r.generation, name, share.Rank, got)
			}
		}
	}
	if n := id.Round(len(c.applied)); n < s.begun-c.start {
		c.applied = append(c.applied, r)
	} else if first := c.applied[s.begun-c.start-1]; c.backup == 0 && fmt.Sprint(first) != fmt.Sprint(r) || first.rows != r.rows || len(first.shares) != len(r.shares) {
		c.Errorf("server %d applies round %d made of %v, another of %v", s.index, s.machine.Round(), r, first)
	}
}

// finishRound ends the round that is being applied, when all partial sums are there.
func (s *simServer) finishRound(c *cluster) {
	if !s.busy {
		return
	}
	for _, other := range c.servers {
		if c.exchange && other.begun < s.begun && !s.arrives {
			return
		}
	}
	s.busy, s.arrives = false, false
	clear(s.arrived)
	s.carryOut(c, must(c, s.machine, pserver.Applied{}))
	if s.index == 0 {
		c.back.ledgers[s.machine.Round()] = c.ledger.Encode()
	}
}

// ended reports whether every trainer has left and every server has been told that all have completed.
func (c *cluster) ended() bool {
	for _, t := range c.trainers {
		if !t.left {
			return false
		}
	}
	for _, s := range c.servers {
		if !s.finished {
			return false
		}
	}
	return true
}

func (c *cluster) String() string {
	text := fmt.Sprintf("backup %d, exchange %v, elastic %v, lock %d, durable %+v, %d messages\n", c.backup, c.exchange, c.elastic, c.lock, c.durable, len(c.pool))
	for _, s := range c.servers {
		text += fmt.Sprintf("server %d %v: %v\n", s.index, s.names, s.machine)
	}
	for _, t := range c.trainers {
		text += fmt.Sprintf("trainer %d: process %d, generation %d, round %d, phase %d, dead %v, left %v, waits %d\n", t.rank, t.number, t.generation,
			t.round, t.phase, t.dead, t.left, t.waiting)
	}
	return text + fmt.Sprintf("coordinator %+v", *c.leaders[len(c.leaders)-1])
}
