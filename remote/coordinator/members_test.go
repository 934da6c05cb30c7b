package coordinator_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// Trainers that join go on together, and the job ends in good order when all have left.
func TestJoinAndLeave(t *testing.T) {
	s := start(t, config(3))
	for rank, r := range s.joinAll(0, 0, 1, 2) {
		if r.Trainers != 3 || r.Generation != 1 || int(r.Position) != rank || r.Fence != s.lead.Fence || r.Round != 0 || r.DataEnded {
			t.Errorf("trainer %d joined %v", rank, r)
		}
	}
	for _, rank := range []uint32{2, 2, 0, 1} { // a repeated Leave does no harm
		if err := s.leave(t.Context(), rank); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// Trainers that never come are named when the start deadline has passed, to those who wait, too.
func TestStartDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.StartDeadline = time.Minute
		h := newHome(t, cfg)
		s := coordinator.New(h.cfg)
		told := make(chan error, 1)
		h.live.set(1, 0)
		go func() {
			_, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 1, 0)})
			told <- err
		}()
		began := time.Now()
		err := s.Run(t.Context(), h.store.lead())
		if time.Since(began) != time.Minute || !errors.Is(err, fault.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "trainer 0, trainer 2 within 1m0s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if got := <-told; got != err {
			t.Errorf("a trainer that waited was told %v", got)
		}
	})
}

// One trainer is chosen to save, told so when the others have left, and again when it asks again. The next coordinator knows.
func TestRequestSaveModel(t *testing.T) {
	h := newHome(t, config(3))
	s := h.start()
	s.joinAll(0, 0, 1, 2)
	granted := make(chan error, 1)
	save := func(s running, generation uint64, rank uint32) (bool, error) {
		r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: idOf(generation, rank, 0)})
		return r.GetGranted(), err
	}
	go func() {
		_, err := save(s, 1, 2)
		granted <- err
	}()
	s.status(func(q *rpc.QueuesResponse) bool {
		return len(q.Waits) == 1 && q.Waits[0].Who == "trainer 2" && len(q.Waits[0].By) == 2
	})
	if ok, err := save(s, 1, 0); err != nil || ok {
		t.Error(ok, err)
	}
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := <-granted; err == nil {
		t.Error("granted while trainer 1 was there")
	}
	<-s.ended

	s = h.start()
	s.joinAll(1, 1, 2)
	if ok, err := save(s, 2, 1); err != nil || ok {
		t.Error(ok, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, 1, 0)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ok, err := save(s, 2, 2); err != nil || !ok {
			t.Error(ok, err)
		}
	}
}
