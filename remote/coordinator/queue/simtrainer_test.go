package queue_test

import "github.com/edl-go/edl/proto/rpc"

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
	unknown     []int64 // records that were applied, of which the ledger does not know yet
	ended       bool    // has seen the end of data
	dead        bool
	drained     bool
	stopped     bool // lost its lease, and may go on
	gone        bool // the coordinator has dealt with it
}

// held is a task that a process believes to have.
type held struct {
	task *rpc.Task
	left []int64 // records that are still to be trained
}

func (s *sim) process(rank int) *process {
	s.next++
	s.since[rank] = s.next
	return &process{s: s, rank: rank, incarnation: s.next}
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
