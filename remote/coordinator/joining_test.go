package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// knock lets a process join of which it is not known whether it holds its key.
func (s running) knock(rank uint32, incarnation uint64) error {
	_, err := s.Join(s.home.t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation})
	return err
}

// The word of a trainer may arrive when its process is gone, also when that was before this coordinator began, or before anything had been heard of
// it: it does not become a member, for nobody would tell of its end.
func TestJoinOfOneWhoIsGone(t *testing.T) {
	cfg := async(1)
	cfg.TrainersMax = 2
	h := newHome(t, cfg)
	s := h.start()
	h.live.set(1, 100)
	s.lose(1)
	if err := s.knock(1, 100); !errors.Is(err, fault.Fenced) {
		t.Errorf("before anything had been heard of it: %v", err)
	}
	h.live.set(1, 200)
	if err := s.knock(1, 100); !errors.Is(err, fault.Fenced) {
		t.Errorf("when another has taken its place: %v", err)
	}
	s.stop()
	<-s.ended
	h.live.remove(1)
	s = h.start()
	s.lose(1)
	if err := s.knock(1, 200); !errors.Is(err, fault.Fenced) {
		t.Errorf("before this coordinator began: %v", err)
	}
	if r, err := s.join(1, 300, 0); err != nil || r.Trainers != 1 {
		t.Errorf("one that lives is told %v, %v", r, err)
	}
}

// A trainer is lost while it is found out whether it lives: what is found out is not the last word of it.
func TestLossOfOneWhoJoins(t *testing.T) {
	h := newHome(t, config(1))
	h.live.set(0, 100)
	var s running
	asked := 0
	h.cfg.Live = func(ctx context.Context) (map[cluster.Member]uint64, error) {
		live, err := h.live.list(ctx)
		if asked++; asked == 1 {
			s.lose(0) // asks, too
		}
		return live, err
	}
	s = h.start()
	if err := s.knock(0, 100); !errors.Is(err, fault.Fenced) || asked != 3 {
		t.Errorf("it is told %v after %d questions", err, asked)
	}
}

// A trainer that waits no more, because it is told to end, does not become a member when it is found out that it lives still.
func TestDrainOfOneWhoJoins(t *testing.T) {
	cfg := async(1)
	cfg.TrainersMax = 2
	h := newHome(t, cfg)
	h.live.set(0, 100)
	joining, giveUp := context.WithCancel(t.Context())
	var s running
	asked := 0
	h.cfg.Live = func(ctx context.Context) (map[cluster.Member]uint64, error) {
		live, err := h.live.list(ctx)
		if asked++; asked == 1 {
			giveUp()
			if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(0, 0, 0), Drained: true}); err != nil {
				t.Error(err)
			}
		}
		return live, err
	}
	s = h.start()
	if _, err := s.Join(joining, &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 100}); !errors.Is(err, fault.Canceled) {
		t.Errorf("it is told %v", err)
	}
	h.live.remove(0)
	if r, err := s.join(1, 101, 0); err != nil || r.Trainers != 1 || asked != 2 {
		t.Errorf("another is told %v, %v after %d questions", r, err, asked)
	}
}
