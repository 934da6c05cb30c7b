package generation_test

import "github.com/edl-go/edl/remote/coordinator/generation"

// take asks for a record to train. When there is no more, and nobody else has any, the process is done.
func (w *asyncWorld) take(p *process) {
	if !w.isMember(p) {
		return
	}
	open := false
	for _, k := range w.tasks {
		if p.task == nil && k.holder == nil && !k.done {
			k.holder, k.since, p.task = p, p.since, k
		}
		open = open || !k.done
	}
	switch {
	case p.task != nil:
		p.step++
		p.batch = p.task.records[0]
	case !open:
		p.completing = true
	}
	p.turns++
	clear(p.acked)
}

// trained goes on after a batch that is in the ledger.
func (w *asyncWorld) trained(p *process) {
	k := p.task
	p.batch = -1
	p.turns++
	if k.holder != p { // given back meanwhile
		p.task = nil
	} else if k.records = k.records[1:]; len(k.records) == 0 {
		k.done, p.task = true, nil
	}
}

// apply takes an update on a server.
func (w *asyncWorld) apply(p *process, s *asyncServer, m *stepper) {
	if p.step <= m.step {
		return // it has it
	}
	if w.given[p.incarnation] {
		w.fail("a server applies record %d of trainer %d, process %d, whose tasks were given back", p.batch, p.rank, p.incarnation)
	}
	m.step = p.step
	s.applied[p.batch]++
}

// tellServers sends what a process has to say to a server that has not heard of it.
func (w *asyncWorld) tellServers(p *process, take func(s *asyncServer, m *stepper)) {
	i := w.chance.IntN(len(w.servers))
	if !p.acked[i] {
		w.send(p, i, take, func() { p.acked[i] = true })
	}
}

// send lets a message be under way, maybe twice, or loses it. What arrives when its process has gone on changes nothing.
func (w *asyncWorld) send(p *process, i int, take func(s *asyncServer, m *stepper), answered func()) {
	turns, s := p.turns, w.servers[i]
	var arrive func()
	arrive = func() {
		m := s.members[p.rank]
		switch {
		case turns != p.turns:
		case p.since > s.generation:
			w.pending = append(w.pending, arrive) // it has overtaken the Resume
		case m == nil || m.since != p.since:
			w.deposed(p, "a server")
		default:
			if take(s, m); !p.over && w.chance.IntN(10) > 0 {
				answered()
			}
		}
	}
	for range w.chance.IntN(3) {
		w.pending = append(w.pending, arrive)
	}
}

// leave tells the coordinator, which makes it durable.
func (w *asyncWorld) leave(p *process) {
	if w.machine.Now() == generation.Ended || !w.isMember(p) {
		return
	}
	p.left = true
	w.leases.release(p.rank, p.incarnation)
	w.durable.Left = append(w.durable.Left, p.rank)
	w.step(generation.Left{Rank: p.rank})
}
