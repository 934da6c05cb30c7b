package generation_test

import (
	"slices"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// leases is a model of the registry, and of what a coordinator asks it.
type leases struct {
	live    map[uint32]uint64 // by rank: the process that holds its key
	joined  map[uint32]bool   // ranks of which nobody has left in order since one took the key
	reports []uint32          // ranks of losses that the coordinator has yet to hear of
	heard   map[uint32]int    // losses of each rank that this coordinator has heard of
}

func newLeases() leases { return leases{live: map[uint32]uint64{}, joined: map[uint32]bool{}} }

// watch begins to report to another coordinator: first those who are lost now.
func (l *leases) watch(ranks int) {
	l.reports, l.heard = nil, map[uint32]int{}
	for rank := range uint32(ranks) {
		if l.joined[rank] && l.live[rank] == 0 {
			l.reports = append(l.reports, rank)
		}
	}
}

func (l *leases) lives(rank uint32, incarnation uint64) bool { return l.live[rank] == incarnation }

// claim takes the key of a rank for a process, if nobody holds it.
func (l *leases) claim(rank uint32, incarnation uint64) bool {
	if l.live[rank] != 0 {
		return false
	}
	l.live[rank], l.joined[rank] = incarnation, true
	return true
}

func (l *leases) lose(rank uint32, incarnation uint64) {
	if l.lives(rank, incarnation) {
		delete(l.live, rank)
		l.reports = append(l.reports, rank)
	}
}

// release gives the key up in order.
func (l *leases) release(rank uint32, incarnation uint64) {
	if l.lives(rank, incarnation) {
		delete(l.live, rank)
		delete(l.joined, rank)
	}
}

// A shell is what a coordinator does with words of the registry and of trainers. later lets something happen after a while, unless another
// coordinator has followed by then.
type shell struct {
	*leases
	machine *generation.Machine
	step    func(generation.Event) bool
	later   func(func())
}

// lost takes a report that the lease of some process of a rank has ended.
func (s shell) lost(rank uint32) {
	s.heard[rank]++
	known := s.machine.Incarnations(rank)
	s.later(func() {
		for _, incarnation := range known {
			if !s.lives(rank, incarnation) {
				s.step(generation.Lost{Rank: rank, Incarnation: incarnation})
			}
		}
	})
}

// join takes the word of a process that waits for a generation, unless waits says that it does so no more; done is told whether it was not refused.
// Of a process that is known already its loss will be told. Of another the registry is asked, and again when a loss was told meanwhile, which may
// have been its own.
func (s shell) join(e generation.Joined, waits func() bool, done func(bool)) {
	take := func() {
		if waits() {
			done(s.step(e))
		}
	}
	if slices.Contains(s.machine.Incarnations(e.Rank), e.Incarnation) {
		take()
		return
	}
	heard := s.heard[e.Rank]
	s.later(func() {
		lives := s.lives(e.Rank, e.Incarnation)
		s.later(func() {
			switch {
			case !lives:
				done(false)
			case heard != s.heard[e.Rank]:
				s.join(e, waits, done)
			default:
				take()
			}
		})
	})
}
