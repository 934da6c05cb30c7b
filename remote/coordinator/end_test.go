package coordinator_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// A trainer that is lost between its last two messages has done its work: some servers know, and the job ends well, now and for the next coordinator,
// which need not ask servers that have gone since.
func TestTrainerIsLostAfterItsWork(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for told := 1; told <= 2; told++ {
			t.Run(fmt.Sprintf("sync %v, %d servers", sync, told), func(t *testing.T) {
				cfg := config(1)
				cfg.Sync = sync
				h := newHome(t, cfg)
				s := h.start()
				s.joinAll(0, 0)
				for _, server := range h.servers[2-told:] {
					server.mu.Lock()
					server.completed = []uint32{0}
					server.mu.Unlock()
				}
				s.lose(0)
				if err := <-s.ended; err != nil {
					t.Fatal(err)
				}
				h.servers[0].mu.Lock()
				h.servers[0].gone = true
				freezes := h.servers[1].freezes
				h.servers[0].mu.Unlock()
				if err := <-h.start().ended; err != nil {
					t.Fatal(err)
				}
				if a, b := h.servers[0], h.servers[1]; a.dismissed != 1 || b.dismissed != 2 || b.freezes != freezes {
					t.Errorf("server 0 was told the end %d times, server 1 %d times, after %d more freezes", a.dismissed, b.dismissed, b.freezes-freezes)
				}
			})
		}
	}
}

// Where no server knows that the trainer has done its work, the job waits for it.
func TestTrainerIsLostBeforeItsEnd(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	s.lose(0)
	s.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "paused" })
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Generation != 2 {
		t.Errorf("%v, %v", r, err)
	}
}

// A trainer that has completed, and has not been heard of at some server, is told that it has done everything, while the job waits for the others.
func TestJoinOfWhoHasLeft(t *testing.T) {
	h := newHome(t, config(2))
	s := h.start()
	s.joinAll(0, 0, 1)
	h.servers[0].mu.Lock()
	h.servers[0].completed = []uint32{1}
	h.servers[0].mu.Unlock()
	s.lose(0)
	for _, incarnation := range []uint64{incarnation(1), 300} {
		if r, err := s.join(1, incarnation, 1); err != nil || !r.DataEnded || r.Generation != 0 {
			t.Errorf("%v, %v", r, err)
		}
	}
	s.stop() // the next coordinator knows it, too
	<-s.ended
	s = h.start()
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Trainers != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(3, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A server that does not answer at the end is waited for, by name, and not for ever.
func TestSilentServerAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, config(1))
		h.cfg.RejoinDeadline = time.Minute
		h.cfg.Live = nil
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		h.servers[1].mu.Lock()
		h.servers[1].gone = true
		h.servers[1].mu.Unlock()
		began := time.Now()
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: id(0, 0)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		q, err := s.ShowQueues(t.Context(), &rpc.QueuesRequest{Job: "job"})
		if err != nil || q.Phase != "ending" || len(q.Waits) != 1 || len(q.Waits[0].By) != 1 || q.Waits[0].By[0] != "pserver 1" {
			t.Errorf("%v, %v", q, err)
		}
		if err := <-ended; err != nil || time.Since(began) > 2*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: id(0, 0)}); errors.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	})
}
