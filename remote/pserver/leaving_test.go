package pserver_test

import (
	"testing"

	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
)

// A server that is told to end goes on until a cut has what it has, and applies no round behind that: the job would repeat it. Where another cut is asked for, as
// when other servers were past the round, it goes on to that.
func TestLeavesBehindACut(t *testing.T) {
	idle := pstest.New(t, pstest.Config(1))
	if pserver.Leaves(idle.Server) {
		t.Error("a server without a program has something to lose")
	}
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	c := cutter{s, t.TempDir()}
	trainRound(t, s, 0)
	if !pserver.Leaves(s.Server) {
		t.Fatal("a server that has trained has nothing to lose")
	}
	trainRound(t, s, 1)
	next := make(chan error, 1)
	for round := uint64(2); round < 5; round++ {
		name := checkpoint.NewName("job", round)
		answer := c.start(t.Context(), round, name)
		if round > 2 { // what was held is applied
			if err := <-next; err != nil {
				t.Fatal(err)
			}
		}
		a := <-answer
		if a.err != nil || a.Past {
			t.Fatal(a.CutResponse, a.err)
		}
		checkCut(t, c, name, round, a.CutResponse)
		go func() { next <- train(t, s, round) }()
		if _, err := c.ask(t.Context(), round, name); err != nil { // the same cut frees nothing
			t.Fatal(err)
		}
		select {
		case err := <-next:
			t.Fatalf("round %d is applied behind the cut: %v", round, err)
		default:
		}
	}
	s.Stop()
	if err := <-next; err == nil {
		t.Error("a round is applied that was held until the end")
	}
	if pserver.Leaves(s.Server) {
		t.Error("a server that has ended has something to lose")
	}
}
