package pserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// A deadline that passes at the moment in which what it waited for has come ends nothing, also when the server waits for the same again.
func TestDeadlineThatWasReplacedWhileItFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Servers: 2, MaxTrainers: 1, StartDeadline: time.Hour, RoundDeadline: time.Minute})
		s.rounds = NewRounds(1, []string{"w"})
		s.machine = s.rounds
		waitsFor := func(peers map[int]int) {
			s.partials = peers
			s.watch()
		}
		s.mu.Lock()
		if d := s.machine.Step(Event{Kind: Resume, Generation: 1, Members: []Member{{Rank: 0, Since: 1}}}); d.Verdict != Take {
			t.Fatal(d)
		}
		waitsFor(map[int]int{1: 1})
		time.Sleep(time.Minute) // the timer has fired and asks for the lock
		waitsFor(nil)
		waitsFor(map[int]int{1: 1})
		s.mu.Unlock()
		time.Sleep(time.Second)
		s.mu.Lock()
		err := s.err
		waitsFor(nil)
		s.mu.Unlock()
		if err != nil {
			t.Error(err)
		}
	})
}
