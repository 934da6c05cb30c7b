package queue_test

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// process is one process of a trainer.
type process struct {
	s           *sim
	rank        int
	incarnation uint64
	pass        int32
	request     uint64
	fence       uint64   // the highest that it has heard of
	waits       *message // for the answer to it
	tasks       []*held
	unknown     []int64 // records that were applied, and are not in the ledger yet
	ended       bool    // has seen the end of data
	dead        bool
	drained     bool
	stopped     bool // lost its lease, and may go on
	gone        bool // the coordinator has dealt with it
	past        bool // its history is over: no coordinator takes a message of it
}

// held is a task that a process believes to have.
type held struct {
	task *rpc.Task
	left []int64 // records that are still to be trained
}

func (s *sim) process(rank int) *process {
	s.next++
	s.since[rank] = s.next
	return &process{s: s, rank: rank, incarnation: s.next, fence: s.least}
}

// act is the next thing that a trainer does.
func (p *process) act() {
	switch {
	case p.dead || p.ended:
	case p.waits != nil:
		if p.s.random.IntN(4) == 0 {
			p.s.net = append(p.s.net, *p.waits) // again, the answer may be lost
		}
	case len(p.unknown) > 0:
		p.commit()
	case p.training() != nil && (len(p.tasks) > 1 || p.s.random.IntN(4) > 0):
		p.train(p.training())
	default:
		p.ask()
	}
}

// training returns the first task that is not finished.
func (p *process) training() *held {
	for _, h := range p.tasks {
		if len(h.left) > 0 {
			return h
		}
	}
	return nil
}

// train applies a batch of a task at the parameter servers, unless it cannot be read.
func (p *process) train(h *held) {
	n := min(len(h.left), 1+p.s.random.IntN(3))
	for i, r := range h.left[:n] {
		if p.s.poison[r] {
			if n = i; n == 0 {
				p.send(message{failed: h.task})
				return
			}
			break
		}
	}
	if p.refused() {
		return
	}
	for _, r := range h.left[:n] {
		p.s.applied[h.task.Pass][r]++
	}
	p.unknown, h.left = h.left[:n], h.left[n:]
	p.s.say("trainer %d.%d trains %v of task %d, pass %d", p.rank, p.incarnation, p.unknown, h.task.Id, h.task.Pass)
}

// commit tells the ledger of the last batch.
func (p *process) commit() {
	if p.refused() {
		return
	}
	for _, r := range p.unknown {
		p.s.ledger[p.pass][r] = true
	}
	p.unknown = nil
}

// refused reports whether the parameter servers take nothing of this process any more. Then it ends.
func (p *process) refused() bool {
	p.dead = p.dead || p.s.since[p.rank] > p.incarnation
	return p.dead
}

// ask reports what is finished and asks for a task.
func (p *process) ask() {
	m := message{pass: p.pass}
	for _, h := range p.tasks {
		if len(h.left) == 0 {
			m.finished = append(m.finished, h.task)
		}
	}
	p.send(m)
}

func (p *process) send(m message) {
	p.request++
	m.from, m.number, m.fence = p, p.request, p.fence
	p.waits = &m
	p.s.net = append(p.s.net, m)
}

// hear takes an answer.
func (p *process) hear(m message) {
	if p.dead || p.waits == nil || m.number != p.waits.number {
		return
	}
	asked := *p.waits
	p.waits, p.fence = nil, max(p.fence, m.fence)
	if asked.failed != nil {
		p.drop(asked.failed)
		return
	}
	for _, t := range asked.finished {
		p.drop(t)
	}
	switch g := m.grant; {
	case m.err != nil:
		if !errors.Is(m.err, fault.Stale) {
			p.s.fail("trainer %d: %v", p.rank, m.err)
		}
	case g.Task != nil:
		p.take(g.Task)
	case g.EndOfData:
		p.ended = true
	case g.EndOfPass:
		if len(p.tasks) > 0 {
			for _, h := range p.tasks { // they went to others
				p.s.say("trainer %d.%d gives up task %d", p.rank, p.incarnation, h.task.Id)
			}
			p.tasks = nil
		}
		p.pass++
	}
}

func (p *process) drop(t *rpc.Task) {
	for i, h := range p.tasks {
		if h.task == t {
			p.tasks = append(p.tasks[:i:i], p.tasks[i+1:]...)
			return
		}
	}
}

// take begins with a task, unless it has it: no dispatch has two holders.
func (p *process) take(t *rpc.Task) {
	name := fmt.Sprintf("%d/%d/%d", t.Pass, t.Id, t.Epoch)
	if who := p.s.granted[name]; who != nil && who != p {
		p.s.fail("dispatch %s went to trainer %d.%d and to %d.%d", name, who.rank, who.incarnation, p.rank, p.incarnation)
	}
	p.s.granted[name] = p
	h := &held{task: t}
	for _, r := range t.Records {
		for i := r.From; i < r.To; i++ {
			h.left = append(h.left, i)
		}
	}
	p.tasks = append(p.tasks, h)
	p.s.say("trainer %d.%d is given %s: %s", p.rank, p.incarnation, name, showRanges(t.Records))
}

func (s *sim) addFile() {
	first := int64(0)
	if n := len(s.files); n > 0 {
		first = s.files[n-1].FirstRecord + s.files[n-1].Records
	}
	f := &rpc.DataFile{Path: fmt.Sprintf("f%d", len(s.files)), FirstRecord: first, Records: int64(1 + s.random.IntN(10))}
	s.files = append(s.files, f)
	for r := first; r < first+f.Records; r++ {
		s.poison[r] = s.random.IntN(40) == 0
	}
}

func (s *sim) anyTrainer() *process {
	if n := len(s.zombies); n > 0 && s.random.IntN(5) == 0 {
		return s.zombies[s.random.IntN(n)]
	}
	return s.trainer[s.random.IntN(len(s.trainer))]
}

// world kills, pauses, drains and starts trainers, and adds files.
func (s *sim) world() {
	leader := s.leaders[len(s.leaders)-1]
	p := s.trainer[s.random.IntN(len(s.trainer))]
	switch {
	case leader.queue == nil:
		leader.create()
	case !leader.queue.Following() && s.chance(10, "checkpoint"):
		s.cutNow()
	case s.cut != nil && s.chance(25, "pserver lost"):
		leader.goBack()
	case p.dead || p.stopped:
		if !p.gone {
			leader.lost(p)
		} else {
			s.trainer[p.rank] = s.process(p.rank)
			s.say("trainer %d starts as %d", p.rank, s.trainer[p.rank].incarnation)
		}
	case len(p.unknown) == 0 && s.chance(12, "trainer drained"):
		p.dead, p.drained = true, true
	case s.chance(12, "trainer killed"):
		p.dead = true
	case s.chance(20, "trainer paused"): // its lease ends, and later it goes on as if nothing had been
		p.stopped = true
		s.zombies = append(s.zombies, p)
	case s.follow > 0 && (s.calm || s.random.IntN(3) == 0):
		s.follow--
		s.note("file added")
		s.addFile()
		leader.follow()
	case leader.queue.Following():
		if s.marked = s.follow == 0; s.marked || s.random.IntN(2) == 0 {
			leader.follow()
		}
	}
}
