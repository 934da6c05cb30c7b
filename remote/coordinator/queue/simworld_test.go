package queue_test

import (
	"fmt"

	"github.com/edl-go/edl/proto/rpc"
)

func (s *sim) addFile() {
	first := int64(0)
	if n := len(s.files); n > 0 {
		first = s.files[n-1].FirstRecord + s.files[n-1].Records
	}
	f := &rpc.DataFile{Path: fmt.Sprintf("f%d", len(s.files)), FirstRecord: first, Records: int64(1 + s.random.IntN(10))}
	s.files = append(s.files, f)
	for r := first; r < first+f.Records; r++ {
		s.poison[r] = s.random.IntN(40) == 0
	}
}

func (s *sim) anyTrainer() *process {
	if n := len(s.zombies); n > 0 && s.random.IntN(5) == 0 {
		return s.zombies[s.random.IntN(n)]
	}
	return s.trainer[s.random.IntN(len(s.trainer))]
}

// world kills, pauses, drains and starts trainers, and adds files.
func (s *sim) world() {
	leader := s.leaders[len(s.leaders)-1]
	p := s.trainer[s.random.IntN(len(s.trainer))]
	switch {
	case leader.queue == nil:
		leader.create()
	case p.dead || p.stopped:
		if !p.gone {
			leader.lost(p)
		} else {
			s.trainer[p.rank] = s.process(p.rank)
			s.say("trainer %d starts as %d", p.rank, s.trainer[p.rank].incarnation)
		}
	case len(p.unknown) == 0 && s.chance(12, "trainer drained"):
		p.dead, p.drained = true, true
	case s.chance(12, "trainer killed"):
		p.dead = true
	case s.chance(20, "trainer paused"): // its lease ends, and later it goes on as if nothing had been
		p.stopped = true
		s.zombies = append(s.zombies, p)
	case s.follow > 0 && (s.calm || s.random.IntN(3) == 0):
		s.follow--
		s.note("file added")
		s.addFile()
		leader.follow()
	case leader.queue.Following():
		if s.marked = s.follow == 0; s.marked || s.random.IntN(2) == 0 {
			leader.follow()
		}
	}
}
