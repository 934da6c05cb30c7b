package queue_test

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// regent is a coordinator of a sync job.
type regent struct {
	s     *rounds
	fence uint64
	queue *queue.Queue
}

func (s *rounds) elect() {
	s.fence++
	l := &regent{s: s, fence: s.fence}
	q, effects, err := queue.Restore(s.policy, "d", s.store, s.now)
	if err == nil && q == nil {
		q, effects, err = queue.New(s.policy, queue.Dataset{Name: "d", Files: s.files, Following: s.follows})
	}
	if err != nil {
		s.fail("%v\n%s", err, lines(s.store))
		return
	}
	s.leaders = append(s.leaders, l)
	if !l.commit(effects.Changes, func() {}) {
		l.die()
		return
	}
	l.queue = q
	s.freeze() // a coordinator begins a generation of its own
}

func (l *regent) die() {
	l.s.leaders = slices.DeleteFunc(l.s.leaders, func(o *regent) bool { return o == l })
}

func (l *regent) commit(changes []queue.Change, durable func()) bool {
	answers, ends := l.s.commit(l.s.store, odds{crash: 30, fail: 20}, l.fence != l.s.fence, changes, func([]queue.Change) { durable() })
	if ends {
		l.die()
	}
	return answers
}

func (l *regent) step(e queue.Event) (queue.Effects, error, bool) {
	copied := l.queue.Clone()
	effects, err := copied.Step(l.s.now, e)
	if err != nil {
		return effects, err, true
	}
	if !l.commit(effects.Changes, func() { l.s.count(e, l.queue, copied) }) {
		return effects, nil, false
	}
	l.queue = copied
	for _, n := range effects.Notes {
		l.s.note("%s", n.What)
	}
	l.check()
	return effects, nil, true
}

// change begins a generation with any number of members.
func (l *regent) change() {
	s := l.s
	s.freeze()
	if l.queue.Regrouping() {
		pass := l.queue.Segment(s.round).GetPass()
		if _, err, ok := l.step(queue.Regrouped{Round: s.round, Pass: pass, Committed: s.committed(pass)}); err != nil || !ok {
			if err != nil {
				s.fail("regroup: %v", err)
			}
			return
		}
		s.note("regrouped")
	}
	segment := l.queue.Segment(s.round)
	if segment == nil {
		s.fail("round %d lies nowhere", s.round)
		return
	}
	s.generation++
	s.frozen, s.members, s.zombies = false, nil, append(s.zombies, s.members...)
	for rank := range 1 + s.random.IntN(3) {
		s.members = append(s.members, &reader{s: s, rank: rank, generation: s.generation, fence: l.fence, pass: segment.Pass, round: s.round,
			over: int(s.round-id.Round(segment.FirstRound)) * s.batch})
	}
	s.say("generation %d begins with round %d, %s", s.generation, s.round, showSegment(segment))
}

// reader is a trainer in one generation. It reads the segment from its beginning and passes over what was trained of it.
type reader struct {
	s          *rounds
	rank       int
	generation uint64
	fence      uint64
	pass       int32
	round      id.Round
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

// finish reports the tasks whose records have been trained.
func (m *reader) finish(l *regent) bool {
	for n := m.finished(); n > 0; n = m.finished() {
		if m.s.random.IntN(2) == 0 { // the last one stands for those before it
			m.tasks, n = m.tasks[n-1:], 1
		}
		if _, ok := m.say(l, queue.TaskFinished{Rank: id.Rank(m.rank), Task: m.tasks[0]}); !ok {
			return false
		}
		m.tasks = m.tasks[1:]
	}
	return true
}

// finished counts the tasks whose records have been trained.
func (m *reader) finished() (n int) {
	for n < len(m.tasks) && (m.passEnd || m.tasks[n].Records[len(m.tasks[n].Records)-1].To <= m.trained) {
		n++
	}
	return n
}

func (m *reader) fail(l *regent) {
	effects, ok := m.say(l, queue.TaskFailed{Rank: id.Rank(m.rank), Task: m.failing, Reason: "poison"})
	if ok && !effects.Regroup {
		m.s.fail("a failure without consequence: %v", effects)
	}
	if ok && l == m.s.leader() {
		l.change()
	}
}

func (m *reader) get(l *regent) {
	effects, ok := m.say(l, queue.TaskWanted{Rank: id.Rank(m.rank), Pass: m.pass, Position: m.position, Records: int64(m.s.random.IntN(15)), Round: m.round})
	switch g := effects.Grant; {
	case !ok:
	case g.Wait:
		m.s.note("waits")
	case g.EndOfPass:
		m.passEnd, m.dataEnd, m.over = true, g.EndOfData, 0 // the last batch of a pass may be shorter
	default:
		if len(g.Next) > 0 {
			m.s.note("several tasks granted")
		}
		for _, t := range append([]*rpc.Task{g.Task}, g.Next...) {
			if !m.take(t) {
				break
			}
		}
	}
}

// take reads a task. It reports false when that has a record that cannot be read.
func (m *reader) take(t *rpc.Task) bool {
	for _, r := range t.Records {
		for i := r.From; i < r.To; i++ {
			if m.s.poison[i] {
				m.failing = t
				return false
			}
			if m.over > 0 {
				m.over--
				m.trained = i + 1
			} else {
				m.read = append(m.read, i)
			}
		}
		m.position = r.To
	}
	m.tasks = append(m.tasks, t)
	return true
}
