package pserver_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// A share is what a process of a trainer sends to a server in a step: a contribution, or, where name is empty, the learning-rate block that the step asks for.
type share struct {
	process int
	step    id.Round
	name    string
}

// A content is what the values of a server, and its ledger, were computed from.
type content struct {
	applied map[share]int
	ledger  map[int64]int // by record
}

func (c content) clone() content { return content{maps.Clone(c.applied), maps.Clone(c.ledger)} }

// An asyncServer is a process of a server, or of its standby, in a simulated async job. It does with the machine under test what updaters and asyncMirror do.
type asyncServer struct {
	content
	machine, told *pserver.Updates
	queue         []contribution
	waiting       []toldOf // updates that are applied, and that the standby is told of
	follower      *asyncFollower
}

// A contribution is taken, and not applied.
type contribution struct {
	from    pserver.Sender
	process int
	name    string
}

// toldOf is the place of an update in what a follower is told.
type toldOf struct {
	of     *asyncFollower
	number int
	rank   id.Rank
}

// An asyncFollower is the standby of one server, and the connection to it.
type asyncFollower struct {
	*asyncServer
	stream  []func(*asyncServer) // under way
	told    int
	acked   int
	started bool // it has been sent the values
	inStep  bool // it has them
	ended   bool
}

// An asyncTrainer is a rank. Its process makes one step after the other.
type asyncTrainer struct {
	rank         id.Rank
	process      int
	since        id.Generation
	step         id.Round
	sent         []map[string]bool // by server
	answered     []bool            // by server: all of the step is applied
	declared     bool
	declaredTo   toldOf
	acknowledged int // steps of all processes of the rank
	killed       int
}

type asyncJob struct {
	*testing.T
	rand       *rand.Rand
	names      []string
	servers    []*asyncServer
	trainers   []*asyncTrainer
	generation id.Generation
	resumes    []map[id.Generation]*toldOf // by server: those that are not answered; nil: the server has not heard
	processes  int
	faults     int
	takeovers  int
	past       []pastMessage
}

type pastMessage struct {
	server  int
	process int
	event   pserver.Received
}

const asyncSteps = 6 // of each rank

// Whatever is lost among servers with standbys, trainers and messages of an async job, and whenever: what a step has contributed is applied once on every server
// if the ledger has the step, and at most once if not. Only one step of each process that was lost is not in the ledger, and no step of which a trainer was told
// that it is.
func TestAsyncStandbysAgree(t *testing.T) {
	histories := uint64(3000)
	if testing.Short() {
		histories = 300
	}
	takeovers := 0
	for seed := range histories {
		j := newAsyncJob(t, seed)
		for step := 0; !j.ended(); step++ {
			if j.step(); step > 100_000 || j.Failed() {
				t.Fatalf("seed %d: after %d events, %d takeovers", seed, step, j.takeovers)
			}
		}
		if j.check(); j.Failed() {
			t.Fatalf("seed %d, %d takeovers", seed, j.takeovers)
		}
		takeovers += j.takeovers
	}
	if takeovers < int(histories)/2 {
		t.Errorf("in %d histories standbys take over only %d times", histories, takeovers)
	}
}

func newAsyncJob(t *testing.T, seed uint64) *asyncJob {
	r := rand.New(rand.NewPCG(seed, 2))
	j := &asyncJob{T: t, rand: r, names: []string{"a", "b", "c"}[:1+r.IntN(3)], faults: r.IntN(14)}
	for range 1 + r.IntN(3) {
		j.servers = append(j.servers, j.newServer())
		j.resumes = append(j.resumes, map[id.Generation]*toldOf{})
	}
	for rank := range 1 + r.IntN(3) {
		j.trainers = append(j.trainers, &asyncTrainer{rank: id.Rank(rank)})
	}
	j.regroup(j.trainers...)
	return j
}

func (j *asyncJob) newServer() *asyncServer {
	return &asyncServer{content: content{map[share]int{}, map[int64]int{}}, machine: pserver.NewUpdates(3, j.names), told: pserver.NewUpdates(3, j.names)}
}

// regroup begins a generation, in which some ranks have new processes.
func (j *asyncJob) regroup(anew ...*asyncTrainer) {
	j.generation++
	for _, t := range anew {
		j.processes++
		t.process, t.since, t.step = j.processes, j.generation, id.Round(j.rand.IntN(2)*41)
		t.begin(j)
	}
	for _, r := range j.resumes {
		r[j.generation] = nil
	}
}

func (t *asyncTrainer) begin(j *asyncJob) {
	t.sent, t.answered, t.declared = make([]map[string]bool, len(j.servers)), make([]bool, len(j.servers)), false
	for i := range t.sent {
		t.sent[i] = map[string]bool{}
	}
}

func (j *asyncJob) ended() bool {
	for _, t := range j.trainers {
		if t.acknowledged < asyncSteps {
			return false
		}
	}
	for _, s := range j.servers {
		if len(s.queue) > 0 || len(s.waiting) > 0 {
			return false
		}
	}
	return true
}

// step lets something happen.
func (j *asyncJob) step() {
	i := j.rand.IntN(len(j.servers))
	s := j.servers[i]
	switch n := j.rand.IntN(100); {
	case n < 45:
		j.trainers[j.rand.IntN(len(j.trainers))].act(j)
	case n < 60:
		s.apply()
	case n < 75:
		s.deliver(1)
	case n < 82:
		j.resume(i)
	case n < 90:
		s.catchUp(j)
	case n < 94 && len(j.past) > 0:
		m := j.past[j.rand.IntN(len(j.past))]
		j.servers[m.server].receive(j, m.event, m.process) // nobody reads the answer
	case n < 98 && j.faults > 0:
		j.faults--
		j.fail(i)
	}
}

// fail lets a server, a standby or a trainer be lost.
func (j *asyncJob) fail(i int) {
	s := j.servers[i]
	f := s.follower
	switch n := j.rand.IntN(10); {
	case n < 5 && f != nil && f.inStep && !f.ended:
		s.deliver(j.rand.IntN(len(f.stream) + 1)) // the others are lost with the connection
		j.takeovers++
		if _, err := f.machine.Step(0, pserver.TookOver{}); err != nil {
			j.Error(err)
		}
		now := f.asyncServer
		now.told = pserver.NewUpdates(3, j.names)
		_, _ = now.told.Step(0, pserver.CaughtUpOf(now.machine, now.machine))
		j.servers[i] = now
		for g := range j.resumes[i] {
			j.resumes[i][g] = nil
		}
		for _, t := range j.trainers {
			if !t.answered[i] {
				clear(t.sent[i])
			}
			t.declared = t.declared && i > 0
		}
	case n < 8 && f != nil:
		f.ended, f.inStep = true, false
	default:
		if t := j.trainers[j.rand.IntN(len(j.trainers))]; t.acknowledged < asyncSteps {
			t.killed++
			j.regroup(t)
		}
	}
}

// resume tells a server of the oldest generation that it has not answered to.
func (j *asyncJob) resume(i int) {
	s := j.servers[i]
	for g := id.Generation(1); g <= j.generation; g++ {
		at, open := j.resumes[i][g]
		switch {
		case !open:
			continue
		case at != nil:
			if s.has(*at) {
				delete(j.resumes[i], g)
			}
			return
		}
		e := pserver.Resumed{Generation: g, Fence: 1}
		for _, t := range j.trainers {
			if t.since <= g { // a later process of the rank is no member yet
				e.Members = append(e.Members, pserver.Member{Rank: t.rank, Since: t.since, Leader: t.rank})
			}
		}
		if _, err := s.machine.Step(0, e); err != nil && fault.KindOf(err) != fault.Superseded {
			j.Errorf("server %d refuses %+v: %v", i, e, err)
		}
		at = &toldOf{}
		*at = s.state()
		j.resumes[i][g] = at
		return
	}
}

// tell enters what the standby is told.
func (s *asyncServer) tell(e pserver.Event, do func(*asyncServer)) toldOf {
	_, _ = s.told.Step(0, e)
	f := s.follower
	if f == nil || !f.started {
		return toldOf{}
	}
	f.stream = append(f.stream, func(b *asyncServer) {
		_, _ = b.machine.Step(0, e)
		if do != nil {
			do(b)
		}
	})
	f.told++
	return toldOf{of: f, number: f.told}
}

func (s *asyncServer) state() toldOf {
	return s.tell(pserver.Followed{Standing: pserver.StandingOfUpdates(s.machine)}, nil)
}

// has reports whether nobody waits for the standby to hear of something any more.
func (s *asyncServer) has(at toldOf) bool {
	return at.of == nil || at.of.acked >= at.number || at.of.ended && s.follower != at.of
}

// deliver lets the standby take what is under way first.
func (s *asyncServer) deliver(messages int) {
	f := s.follower
	for ; messages > 0 && f != nil && !f.ended && len(f.stream) > 0; messages-- {
		f.acked++
		f.stream[0](f.asyncServer)
		f.stream = f.stream[1:]
	}
}

// catchUp lets a standby begin, or sends it the values between two updates.
func (s *asyncServer) catchUp(j *asyncJob) {
	f := s.follower
	if f == nil || f.ended {
		s.follower = &asyncFollower{asyncServer: j.newServer()}
		return
	}
	if f.started {
		return
	}
	f.started = true
	s.state()
	values := s.clone()
	s.tell(pserver.CaughtUpOf(s.told, s.machine), func(b *asyncServer) { b.content, f.inStep = values, true })
}

// receive takes a contribution, and reports whether it is here.
func (s *asyncServer) receive(j *asyncJob, e pserver.Received, process int) bool {
	f, err := s.machine.Step(0, e)
	if err != nil || f.Hold {
		if err != nil && fault.KindOf(err) == fault.Internal {
			j.Error(err)
		}
		return false
	}
	if f.Ignore {
		return true
	}
	if f.LearningRate {
		block := func(b *asyncServer) { b.applied[share{process, e.Round, ""}]++ }
		s.tell(pserver.Updated{Sender: e.Sender}, block)
		block(s)
	}
	s.queue = append(s.queue, contribution{e.Sender, process, e.Variable})
	return true
}

// apply applies a contribution, or counts one as applied that the standby has.
func (s *asyncServer) apply() {
	if len(s.waiting) > 0 && s.has(s.waiting[0]) {
		_, _ = s.machine.Step(0, pserver.Applied{Rank: s.waiting[0].rank})
		s.waiting = s.waiting[1:]
		return
	}
	if len(s.queue) == 0 {
		return
	}
	c := s.queue[0]
	s.queue = s.queue[1:]
	update := func(b *asyncServer) { b.applied[share{c.process, c.from.Round, c.name}]++ }
	at := s.tell(pserver.Updated{Sender: c.from, Variables: []string{c.name}}, func(b *asyncServer) {
		update(b)
		_, _ = b.machine.Step(0, pserver.Applied{Rank: c.from.Rank})
	})
	update(s)
	at.rank = c.from.Rank
	s.waiting = append(s.waiting, at)
}
