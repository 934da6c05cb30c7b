package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
)

// B1 row 14: requests that wait for the store are made durable together, in groups that fit into one transaction; and nobody is answered before that
// (trap 14).
func TestGroupsFitIntoATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trainers = 200
		h := newHome(t, async(trainers))
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		for rank := range uint32(trainers) {
			h.live.set(rank, incarnation(rank))
			go func() {
				_, _ = s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation(rank)})
			}()
		}
		synctest.Wait()
		if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(1e6)}}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		h.store.failing(func([]cluster.Change) error { <-answer; return nil })
		before, told := h.store.commits, make(chan error, trainers)
		for rank := range uint32(trainers) {
			go func() {
				r, err := s.GetTask(context.WithoutCancel(t.Context()), &rpc.GetTaskRequest{Id: id(rank, 0), Dataset: "d"})
				if err == nil && r.Task == nil {
					t.Errorf("trainer %d is told %v", rank, r)
				}
				told <- err
			}()
		}
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("%d trainers are answered before anything is durable", len(told))
		}
		close(answer)
		for range trainers {
			if err := <-told; err != nil {
				t.Error(err)
			}
		}
		if n := h.store.commits - before; h.store.largest > cluster.MaxChanges || n > trainers/10 {
			t.Errorf("%d requests were %d commits, the largest of %d changes; want at most %d changes each", trainers, n, h.store.largest, cluster.MaxChanges)
		}
		s.Fail(nil)
		<-ended
	})
}
