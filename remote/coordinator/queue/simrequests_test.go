package queue_test

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

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
