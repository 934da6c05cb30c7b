package generation

import "slices"

// Answer returns the generation that a trainer which has joined is a member of, when that has begun and is newer than the last that the trainer
// knows. The trainer does not wait any more then.
func (m *Machine) Answer(rank uint32, incarnation, last uint64) (Generation, bool) {
	member, ok := m.current.Member(rank)
	if !ok || member.Incarnation != incarnation || m.phase != Running || !m.policy.newer(m.current, member, last) {
		return Generation{}, false
	}
	delete(m.waiting, rank)
	return m.current, true
}

// newer reports whether a member of g has to be told of g. In sync mode every generation is one to join, in async only that in which the member came.
func (p Policy) newer(g Generation, member Member, last uint64) bool {
	if p.Sync {
		return last < g.Number
	}
	return last < member.Since
}

// State is what has to be durable now, but for a generation that is being made so.
func (m *Machine) State() State {
	s := State{Generation: m.current, Settled: m.settled}
	for rank := range uint32(max(m.policy.Max, m.policy.Min)) {
		if m.left[rank] {
			s.Left = append(s.Left, rank)
		}
	}
	return s
}

// Generation is the last durable generation.
func (m *Machine) Generation() Generation { return m.current }

// Committed is how many rounds are known to have committed. In the last generation there may be more, of which its members know.
func (m *Machine) Committed() uint64 { return max(m.current.Round, m.round) }

// Now is the phase that the machine is in.
func (m *Machine) Now() Phase { return m.phase }

// Incarnations returns the processes of a rank that are members or wait to be.
func (m *Machine) Incarnations(rank uint32) (known []uint64) {
	if w, ok := m.waiting[rank]; ok {
		known = append(known, w.incarnation)
	}
	for _, g := range []Generation{m.current, m.next} {
		if member, ok := g.Member(rank); ok && !slices.Contains(known, member.Incarnation) {
			known = append(known, member.Incarnation)
		}
	}
	return known
}

// Others returns the members beside one that have not left.
func (m *Machine) Others(rank uint32) (others []uint32) {
	for _, member := range m.current.Members {
		if member.Rank != rank && !m.left[member.Rank] {
			others = append(others, member.Rank)
		}
	}
	return others
}

// Saves reports whether a trainer that was elected to save the model has done so, or may be trusted to: it is a member.
func (m *Machine) Saves(rank uint32) bool {
	_, ok := m.current.Member(rank)
	return ok || m.left[rank]
}
