package queue_test

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// reader is a trainer in one generation. It reads the segment from its beginning and passes over what was trained of it.
type reader struct {
	s          *rounds
	rank       int
	generation uint64
	fence      uint64
	pass       int32
	round      uint64
	over       int // records of the segment that were trained before this generation
	position   int64
	tasks      []*rpc.Task // given and not reported
	read       []int64     // and not yet trained
	trained    int64       // the record after the last one of this pass that was trained
	declared   int
	passEnd    bool
	dataEnd    bool
	failing    *rpc.Task // cannot be read
	ended      bool
}

func (m *reader) act() {
	s := m.s
	switch {
	case m.ended:
	case m.generation == s.generation && m.round < s.round: // the round was applied
		m.trained, m.round = m.read[m.declared-1]+1, s.round
		m.read, m.declared = m.read[m.declared:], 0
	case m.declared > 0:
		s.declare(m, m.pass, m.read[:m.declared])
	case len(m.read) >= s.batch || m.passEnd && len(m.read) > 0:
		n := min(len(m.read), s.batch)
		if s.declare(m, m.pass, m.read[:n]) {
			m.declared = n
		}
	default:
		m.call()
	}
}

// call says something to a coordinator, if it can be reached and is none of the past.
func (m *reader) call() {
	s := m.s
	l := s.leaders[s.random.IntN(len(s.leaders))]
	switch {
	case s.chance(10, "message lost"):
	case l.fence < m.fence:
		l.die()
	case l == s.leader() && m.generation != s.generation:
		m.ended = true // superseded
	case m.failing != nil:
		m.fail(l)
	case !m.finish(l):
	case m.passEnd && m.dataEnd:
		m.ended = true
	case m.passEnd: // all of it has been trained
		m.pass, m.position, m.trained, m.passEnd = m.pass+1, 0, 0, false
	default:
		m.get(l)
	}
}

// say is a message that may be doubled. ok is false when there is no answer.
func (m *reader) say(l *regent, e queue.Event) (effects queue.Effects, ok bool) {
	times := 1
	if m.s.chance(10, "message doubled") {
		times = 2
	}
	for range times {
		if !slices.Contains(m.s.leaders, l) {
			return effects, false
		}
		var err error
		if effects, err, ok = l.step(e); err != nil {
			if !errors.Is(err, fault.Stale) {
				m.s.fail("%T: %v", e, err)
			}
			return effects, false
		}
	}
	return effects, ok && !m.s.chance(10, "message lost")
}
