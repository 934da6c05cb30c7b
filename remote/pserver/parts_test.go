package pserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// A deadline that passes at the moment in which what it waited for has come ends nothing, also when the server waits for the same again.
func TestDeadlineThatWasReplacedWhileItFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCore(Config{Servers: 2, MaxTrainers: 1, StartDeadline: time.Hour, RoundDeadline: time.Minute})
		c.rounds = NewRounds(1, []string{"w"}, 0)
		c.machine = c.rounds
		waitsFor := func(peers map[int]int) {
			c.sums.awaited = peers
			c.watch()
		}
		c.Lock()
		if _, err := c.step(Resumed{Generation: 1, Members: []Member{{Rank: 0, Since: 1}}}); err != nil {
			t.Fatal(err)
		}
		waitsFor(map[int]int{1: 1})
		time.Sleep(time.Minute) // the timer has fired and asks for the lock
		waitsFor(nil)
		waitsFor(map[int]int{1: 1})
		c.Unlock()
		time.Sleep(time.Second)
		c.Lock()
		err := c.Err()
		waitsFor(nil)
		c.Unlock()
		if err != nil {
			t.Error(err)
		}
	})
}

// Buffers returns how many buffers are free for contributions.
func (s *Server) Buffers() int {
	s.core.Lock()
	defer s.core.Unlock()
	n := 0
	for _, free := range s.core.inbox.free {
		n += len(free)
	}
	return n
}
