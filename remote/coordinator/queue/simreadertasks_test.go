package queue_test

import (
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// finish reports the tasks whose records have been trained.
func (m *reader) finish(l *regent) bool {
	for n := m.finished(); n > 0; n = m.finished() {
		if m.s.random.IntN(2) == 0 { // the last one stands for those before it
			m.tasks, n = m.tasks[n-1:], 1
		}
		if _, ok := m.say(l, queue.Finish{Rank: m.rank, Task: m.tasks[0]}); !ok {
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
	effects, ok := m.say(l, queue.Fail{Rank: m.rank, Task: m.failing, Reason: "poison"})
	if ok && !effects.Regroup {
		m.s.fail("a failure without consequence: %v", effects)
	}
	if ok && l == m.s.leader() {
		l.change()
	}
}

func (m *reader) get(l *regent) {
	effects, ok := m.say(l, queue.Get{Rank: m.rank, Pass: m.pass, Position: m.position, Records: int64(m.s.random.IntN(15)), Round: m.round})
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
