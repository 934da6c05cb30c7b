package pserver_test

import (
	"cmp"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// A decision is what a coordinator makes durable before it tells anybody.
type decision struct {
	generation id.Generation
	members    []id.Rank
	round      id.Round
	commit     []pserver.Declaration
	processes  []*process
}

// A leader is one run of the coordinator.
type leader struct {
	fence   id.Fence
	phase   string   // starting, freezing, deciding, resuming, serving, ended
	last    decision // that it knows of
	states  map[int]pserver.State
	waiting int
	moves   bool // to other servers, before anybody trains in the generation that it begins
}

// elect gives the lock to a new coordinator.
func (c *cluster) elect() {
	c.lock += 1 + id.Fence(c.rand.IntN(3))
	c.leaders = append(c.leaders, &leader{fence: c.lock, phase: "starting", last: c.durable})
	if c.back.under {
		c.goBack()
	}
}

func (l *leader) act(c *cluster) {
	switch {
	case l.waiting > 0:
	case l.phase == "starting", l.phase == "serving" && l.mustRegroup(c):
		l.phase, l.states = "freezing", map[int]pserver.State{}
		l.everywhere(c, pserver.Frozen{Generation: l.last.generation, Fence: l.fence}, func(server int, s pserver.State) { l.states[server] = s })
	case l.phase == "going back":
		l.wentBack(c)
	case l.phase == "freezing":
		l.phase = "deciding"
		for server, s := range l.states {
			if s.History != c.back.history && l.fence == c.lock {
				c.Errorf("server %d has the state of history %d, want %d", server, s.History, c.back.history)
			}
		}
	case l.phase == "deciding":
		l.decide(c)
	case l.phase == "resuming" && l.moves:
		l.move(c)
	case l.phase == "resuming":
		l.phase = "serving"
		l.tell(c)
	}
}

// mustRegroup reports whether somebody waits to be told of a generation, a member is lost, or all have left and a server does not know.
func (l *leader) mustRegroup(c *cluster) bool {
	left := true
	for _, t := range c.trainers {
		if t.dead && slices.Contains(l.last.members, t.rank) && c.elastic {
			return true
		}
		left = left && t.left
	}
	return len(c.joined) > 0 || left
}

// decide waits until the members are there, makes its decision durable and begins the generation.
func (l *leader) decide(c *cluster) {
	d := decision{generation: l.last.generation + 1}
	for _, t := range c.trainers {
		rank := t.rank
		switch {
		case t.left:
		case c.joined[rank] == t:
			d.members, d.processes = append(d.members, rank), append(d.processes, t)
		case !t.dead || !c.elastic:
			return
		}
	}
	if len(d.members) == 0 && slices.ContainsFunc(c.trainers, func(t *process) bool { return !t.left }) {
		return
	}
	if l.fence != c.lock {
		l.phase = "ended"
		return
	}
	d.round, d.commit = l.outcome()
	c.durable, c.log[d.generation], l.last, l.phase = d, d.members, d, "resuming"
	e := pserver.Resumed{Generation: d.generation, Fence: l.fence, Round: d.round, Commit: d.commit}
	for _, t := range d.processes {
		e.Members = append(e.Members, pserver.Member{Rank: t.rank, Since: cmp.Or(t.since, d.generation), Leader: t.rank})
	}
	l.everywhere(c, e, func(int, pserver.State) {})
	if l.moves = c.rand.IntN(8) == 0 && l.mayMove(c); l.moves {
		return
	}
	if c.eager {
		l.tell(c)
	}
}

// outcome is the rule of sync rounds.
func (l *leader) outcome() (target id.Round, commit []pserver.Declaration) {
	equal := true
	declared, completed := map[id.Rank]pserver.Declaration{}, map[id.Rank]bool{}
	for _, s := range l.states {
		equal = equal && s.Round == l.states[0].Round
		if s.Round >= target {
			target, commit = s.Round, s.Applied
		}
		for _, d := range s.Declared {
			declared[d.Rank] = d
		}
		for _, rank := range s.Completed {
			completed[rank] = true
		}
	}
	all := len(declared) > 0
	for _, rank := range l.last.members {
		_, ok := declared[rank]
		all = all && (ok || completed[rank])
	}
	if !equal || !all {
		return target, commit
	}
	union := slices.SortedFunc(maps.Values(declared), func(a, b pserver.Declaration) int { return cmp.Compare(a.Rank, b.Rank) })
	return target + 1, union
}

func (l *leader) tell(c *cluster) {
	for position, t := range l.last.processes {
		t.tell(c, l.last, position)
	}
}

// everywhere calls every server. A coordinator that hears of a newer one ends itself.
func (l *leader) everywhere(c *cluster, e pserver.Event, answered func(server int, s pserver.State)) {
	for i := range c.servers {
		l.waiting++
		var answer func(_ pserver.Effects, err error, s pserver.State)
		answer = func(_ pserver.Effects, err error, s pserver.State) {
			switch {
			case err == nil:
				l.waiting--
				answered(i, s)
			case fault.KindOf(err) == fault.Fenced:
				l.phase = "ended"
			case fault.KindOf(err) == fault.Unavailable:
				if l.fence == c.lock { // a later coordinator says more
					c.send(i, e, answer)
				}
			case l.fence == c.lock:
				c.Errorf("server %d refuses %+v: %v", i, e, err)
			}
		}
		c.send(i, e, answer)
	}
}

// A process is one run of a trainer.
type process struct {
	rank              id.Rank
	number            int
	generation, since id.Generation // that it is a member of, and the first that it was
	position, members int
	round             id.Round
	phase             phase
	waiting           int // calls without an answer
	calls             int // counts what was given up: answers to older calls mean nothing
	dead, left        bool
	whole             bool // it has the parameters before its round, of this history
	history           uint64
	late              bool                   // others have gone on without it
	newest            id.Round               // version that a server has
	counted           []pserver.Declaration  // what server 0 has decided
	known             [][]pserver.RankTotals // totals of the round, by place
}

// phase is what a process waits for.
type phase int

const (
	joins   phase = iota // to be told of a generation
	fetches              // for parameters
	shares               // for the totals of the batch
	sends                // for acknowledgements of its gradients
	asks                 // with backup trainers: for what server 0 decides
	declares
	completes
)

// launch starts the next process of a rank.
func (c *cluster) launch(rank id.Rank) {
	t := &process{rank: rank, number: c.next}
	c.next++
	if int(rank) < len(c.trainers) {
		c.trainers[rank] = t
	} else {
		c.trainers = append(c.trainers, t)
	}
	c.joined[rank] = t
}

// simShare is what a member declares: its rows of the batch, as records. Where a trainer names the pass it names its generation.
func simShare(round id.Round, generation id.Generation, rank id.Rank, position, members int) pserver.Declaration {
	from, to := int64(simRows*position/members), int64(simRows*(position+1)/members)
	d := pserver.Declaration{Rank: rank, Rows: to - from, Pass: int32(generation), Hour: int64(round)*7%11 + int64(generation)*5%7 + int64(rank)*3%5}
	if to > from {
		first := int64(round) * simRows
		d.Records = []ranges.Range{{From: first + from, To: first + to}}
	}
	return d
}

// simTotals are the totals that a member shares. They say in which generation it is.
func simTotals(generation id.Generation, rank id.Rank, rows int64) ops.Totals {
	return ops.Totals{Rows: rows, Over: []int64{rows}, Values: []float64{float64(generation)*1000 + float64(rank)}}
}

// act begins what comes next when all calls of the process have been answered.
func (t *process) act(c *cluster) {
	if t.dead || t.left || t.waiting > 0 {
		return
	}
	share, from := simShare(t.round, t.generation, t.rank, t.position, max(1, t.members)), t.sender()
	switch t.phase {
	case fetches:
		if t.late {
			t.goOn(c)
			return
		}
		t.whole, t.history = true, c.back.history
		if t.round == c.start+simRounds {
			t.phase = completes
			for _, s := range c.servers {
				t.call(c, s.index, pserver.Completed{Sender: from})
			}
			return
		}
		t.known = nil
		t.phase = shares
		fallthrough
	case shares:
		if c.totals > len(t.known) && share.Rows > 0 {
			t.call(c, 0, pserver.Shared{Sender: from, Place: len(t.known), Batch: simRows, Own: simTotals(t.generation, t.rank, share.Rows), Known: t.known})
			return
		}
		t.phase = sends
		for _, s := range c.servers {
			for _, name := range s.names {
				if share.Rows > 0 {
					t.call(c, s.index, pserver.Received{Sender: from, Variable: name})
				}
			}
		}
	case sends:
		if c.backup > 0 {
			t.phase = asks
			e := pserver.Declared{Sender: from, Declaration: share}
			if share.Rows > 0 {
				e.Variables = len(c.servers[0].names)
			}
			t.call(c, 0, e)
			t.ask(c)
			return
		}
		fallthrough
	case asks:
		if t.late {
			t.goOn(c)
			return
		}
		t.phase = declares
		for _, s := range c.servers[min(c.backup, 1):] {
			e := pserver.Declared{Sender: from, Declaration: share, Counted: t.counted}
			if s.index == 0 {
				e.Totals = t.known
			}
			if share.Rows > 0 {
				e.Variables = len(s.names)
			}
			t.call(c, s.index, e)
		}
	case declares:
		if t.late {
			t.goOn(c)
			return
		}
		t.round++
		t.fetch(c)
	case completes:
		if c.back.under || t.generation <= c.back.floor { // the coordinator refuses its leave, and another process takes its place
			t.dead = true
			return
		}
		t.left = true
	}
}

// fetch asks for the parameters that the next round begins with.
func (t *process) fetch(c *cluster) {
	t.phase, t.whole = fetches, false
	for _, s := range c.servers {
		if len(s.names) > 0 {
			t.call(c, s.index, pserver.Read{Sender: t.sender()})
		}
	}
}

// ask asks server 0 what its round is made of.
func (t *process) ask(c *cluster) { t.call(c, 0, pserver.Asked{Sender: t.sender()}) }

// goOn lets a process that is late begin with the newest round that it knows of.
func (t *process) goOn(c *cluster) {
	t.late = false
	if t.newest == t.round { // of a server that has refused something as stale: server 0 knows which round is open
		t.phase, t.late = fetches, true
		t.ask(c)
		return
	}
	t.round = t.newest
	t.fetch(c)
}

// heard takes what an answer tells of backup trainers.
func (t *process) heard(c *cluster, e pserver.Event, s pserver.State) {
	switch e := e.(type) {
	case pserver.Asked:
		if t.newest = max(t.newest, s.Round); s.Round > e.Round+1 {
			t.late = true
			return
		}
		t.counted = nil
		for _, d := range s.Applied {
			d.Records = nil
			t.counted = append(t.counted, d)
		}
	case pserver.Shared:
		parts, rows := pserver.TotalsAt(c.servers[0].machine, e.Place), int64(0)
		for _, p := range parts {
			rows += p.Rows
			if want := simTotals(t.generation, p.Rank, p.Rows); p.Values[0] != want.Values[0] {
				c.Errorf("trainer %d of generation %d is told %v at place %d of round %d", t.rank, t.generation, parts, e.Place, t.round)
			}
		}
		if rows != simRows {
			c.Errorf("trainer %d is told totals of %d rows in round %d", t.rank, rows, t.round)
		}
		t.known = append(slices.Clone(t.known), parts)
		c.shared++
	case pserver.Read:
		if c.backup > 0 && s.Round > e.Round {
			t.late, t.newest = true, max(t.newest, s.Round)
		}
	}
}

func (t *process) sender() pserver.Sender {
	return pserver.Sender{Rank: t.rank, Generation: t.generation, Round: t.round}
}

func (t *process) call(c *cluster, server int, e pserver.Event) {
	t.waiting++
	call := t.calls
	c.send(server, e, func(_ pserver.Effects, err error, s pserver.State) {
		switch {
		case t.dead || t.calls != call:
		case err == nil:
			t.waiting--
			t.heard(c, e, s)
		case c.backup > 0 && fault.KindOf(err) == fault.Stale:
			t.waiting--
			t.late = true
		case fault.KindOf(err) == fault.Superseded:
			t.calls, t.waiting, t.phase = t.calls+1, 0, joins
			c.joined[t.rank] = t
		default:
			c.Errorf("server %d refuses %+v: %v", server, e, err)
		}
	})
}

// tell answers the Join of a process.
func (t *process) tell(c *cluster, d decision, position int) {
	if t.dead || c.joined[t.rank] != t {
		return
	}
	delete(c.joined, t.rank)
	keeps := t.whole && t.round == d.round && t.history == c.back.history && c.backup == 0
	t.generation, t.position, t.members, t.round = d.generation, position, len(d.members), d.round
	t.late, t.newest, t.counted = false, d.round, nil
	if t.since == 0 {
		t.since = d.generation
	}
	if keeps {
		t.phase = fetches
		return
	}
	t.fetch(c)
}
