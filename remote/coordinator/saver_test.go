package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// Trap 14: an election to save lasts until the one who was elected is lost. No time ends it, and nothing that began with an election before it.
func TestSaveGrantsAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := async(1)
		cfg.TrainersMax = 3
		h := newHome(t, cfg)
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		s.Want(3)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		for rank := range uint32(3) {
			h.live.set(rank, incarnation(rank))
			go func() {
				_, _ = s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation(rank)})
			}()
		}
		synctest.Wait()
		save := func(rank uint32) chan bool {
			granted := make(chan bool, 1)
			go func() {
				r, err := s.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: id(rank, 0)})
				granted <- err == nil && r.Granted
			}()
			synctest.Wait()
			return granted
		}
		refused := func(rank uint32) {
			t.Helper()
			answer := save(rank)
			select {
			case granted := <-answer:
				if !granted {
					return
				}
			default: // it was elected and waits for the others
			}
			t.Errorf("trainer %d is elected, too", rank)
		}
		save(2)
		time.Sleep(24 * time.Hour)
		refused(0)
		h.live.remove(2)
		if err := s.Lost(t.Context(), trainerOf(2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second := save(0)
		time.Sleep(24 * time.Hour)
		refused(1)
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: id(1, 0)}); err != nil {
			t.Fatal(err)
		}
		if !<-second {
			t.Error("the second election was ended")
		}
		s.Fail(nil)
		<-ended
	})
}
