package pserver

import (
	"github.com/edl-go/edl/tensor"
)

// deliverUpdate enters a contribution of an async job. The learning-rate block runs once per step of a trainer, before anything of that step is
// applied.
func (s *Server) deliverUpdate(e Event, value *tensor.Tensor) (Verdict, error) {
	u, d, verdict, err := s.arrive(e, value)
	if u == nil {
		return verdict, err
	}
	select {
	case u.queue <- d:
		return Take, nil
	case <-s.failed:
		return Refuse, s.err
	case <-s.done:
		return Take, nil
	}
}

// arrive decides on a contribution, ticks, and adds it to the trainer's step. It returns the update that the step is now whole for, or nil with the
// verdict.
func (s *Server) arrive(e Event, value *tensor.Tensor) (*updater, delivery, Verdict, error) {
	s.arrival.Lock()
	defer s.arrival.Unlock()
	s.mu.Lock()
	d := s.machine.Step(e)
	s.mu.Unlock()
	if d.Tick {
		if err := s.tick(e.Rank, e.Round); err != nil {
			s.Fail(err)
			return nil, delivery{}, Refuse, err
		}
	}
	if d.Verdict != Take {
		return nil, delivery{}, d.Verdict, d.Err
	}
	u := s.updaters[e.Variable]
	step, whole := s.gather(u, e, value)
	if !whole {
		u = nil
	}
	return u, step, Take, nil
}

// gather adds a contribution to what its update has of the trainer's step, and reports whether that is all.
func (s *Server) gather(u *updater, e Event, value *tensor.Tensor) (delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := u.parts[e.Rank]
	if ok && (d.step != e.Round || d.since != e.Generation) {
		s.release(d)
		ok = false
	}
	if !ok {
		d = delivery{rank: e.Rank, since: e.Generation, step: e.Round, values: map[string]*tensor.Tensor{}}
	}
	d.values[e.Variable] = value
	delete(u.parts, e.Rank)
	switch {
	case len(d.values) == len(u.names):
		return d, true
	case s.updates.expects(d.rank, d.since):
		u.parts[e.Rank] = d
	default: // it has completed, or lost its place, since its contribution was taken
		s.release(d)
	}
	return d, false
}

// release counts the contributions of a step as applied and frees them. s.mu is held.
func (s *Server) release(d delivery) {
	for name, value := range d.values {
		s.inbox.give(name, value)
		s.obey(s.updates.Step(Event{Kind: Applied, Rank: d.rank}))
	}
}

// abandonParts gives up the parts of steps whose trainers will send nothing more. s.mu is held.
func (s *Server) abandonParts() {
	for _, u := range s.updaters {
		for rank, d := range u.parts {
			if !s.updates.expects(rank, d.since) {
				delete(u.parts, rank)
				s.release(d)
			}
		}
	}
}
