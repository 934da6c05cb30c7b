package coordinator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

func (s running) loseServer(index int) {
	s.home.t.Helper()
	if err := s.Lost(s.home.t.Context(), serverMember(index)); err != nil {
		s.home.t.Fatal(err)
	}
}

// Before the first round, another server takes the place of one that is lost. Afterwards the job pauses and says why, until it is begun again; so
// does the next coordinator, which hears of the loss as soon as it has begun.
func TestLostServer(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	h.servers[1].forget()
	s.loseServer(1)
	if r := s.joinAll(1, 0)[0]; r.Generation != 2 || r.Round != 0 {
		t.Error(r)
	}
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: idOf(2, 0, 0), Rows: 8, GlobalRows: 8}); err != nil {
		t.Fatal(err)
	}
	for _, server := range h.servers {
		server.train(1)
	}
	paused := func(q *rpc.QueuesResponse) bool {
		for _, w := range q.Waits {
			if q.Phase == "paused" && w.Who == "coordinator" && len(w.By) == 1 && w.By[0] == "pserver 1" && w.Until.IsValid() {
				return true
			}
		}
		return len(s.ended) > 0
	}
	s.loseServer(1)
	s.loseServer(1)
	s.status(paused)
	s.lose(0) // of which the next generation knows
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Round != 1 {
		t.Errorf("%v, %v", r, err)
	}
	s.stop()
	if err := <-s.ended; !errors.Is(err, fault.Canceled) {
		t.Errorf("ended by itself: %v", err)
	}
	s = h.start()
	s.loseServer(1)
	s.status(paused)
	if len(s.ended) > 0 {
		t.Error(<-s.ended)
	}
}

// Where nobody begins the job again it fails, with the name of the server.
func TestLostServerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, async(1))
		h.cfg.Live = nil
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Lost(t.Context(), serverMember(1)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, fault.LostMember) || time.Since(began) != h.cfg.StartDeadline {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
