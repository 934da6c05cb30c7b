package queue_test

import (
	"slices"

	"github.com/edl-go/edl/proto/rpc"
)

// declare is a trainer's barrier.
func (s *rounds) declare(m *reader, pass int32, records []int64) bool {
	if s.frozen || m.generation != s.generation || m.round != s.round {
		return false
	}
	for rank, other := range s.declared {
		if s.pass != pass || !slices.Equal(other, records) {
			s.fail("trainer %d trains %v of pass %d in round %d, and trainer %d %v of pass %d", m.rank, records, pass, s.round, rank, other, s.pass)
		}
	}
	s.declared[m.rank], s.pass = records, pass
	if len(s.declared) == len(s.members) && s.random.IntN(3) > 0 {
		s.apply()
	}
	return true
}

// apply commits the open round: the ledger knows with it.
func (s *rounds) apply() {
	for _, records := range s.declared {
		for _, r := range records {
			if s.ledger[s.pass][r] {
				s.fail("record %d is trained twice in pass %d, again in round %d", r, s.pass, s.round)
			}
			if s.poison[r] {
				s.fail("record %d cannot be read, and was", r)
			}
			s.ledger[s.pass][r] = true
		}
		s.say("round %d: %v of pass %d", s.round, records, s.pass)
		break
	}
	s.round++
	clear(s.declared)
}

// freeze ends the generation: a round that all have declared counts, any other does not.
func (s *rounds) freeze() {
	if !s.frozen && len(s.declared) > 0 {
		if len(s.declared) == len(s.members) {
			s.note("round committed by the freeze")
			s.apply()
		} else {
			s.note("round dropped")
		}
	}
	s.frozen = true
	clear(s.declared)
}

func (s *rounds) committed(pass int32) (out []*rpc.RecordRange) {
	for r, ok := range s.ledger[pass] {
		if ok {
			out = append(out, &rpc.RecordRange{From: r, To: r + 1})
		}
	}
	return out
}
