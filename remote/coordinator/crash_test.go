package coordinator_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// B1 row 12: a coordinator that was paused while another took the lock changes nothing when it goes on, and ends.
func TestDeposedCoordinator(t *testing.T) {
	h := newHome(t, async(1))
	old := h.start()
	old.joinAll(0, 0)
	old.reportDataset(t, 100)
	task := old.mustAsk(1, 0, 0)
	now := h.start()
	next := func() *rpc.Task {
		now.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "running" })
		return now.mustAsk(1, 0, 1, task)
	}()
	if _, err := old.ask(1, 0, 2, next); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the old one says %v", err)
	}
	if err := <-old.ended; !errors.Is(err, fault.Fenced) {
		t.Error(err)
	}
	if third := now.mustAsk(1, 0, 2, next); third.Id != 2 {
		t.Error(third)
	}
	// One that hears of a later one from a trainer ends, too.
	heard := idOf(1, 0, 3)
	heard.Fence = now.lead.Fence + 1
	if _, err := now.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: heard, Dataset: "d"}); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if err := <-now.ended; !errors.Is(err, fault.Fenced) {
		t.Error(err)
	}
}

// Coordinators crash again and again while trainers train in async mode; every record is trained once.
func TestCrashesInTheMiddle(t *testing.T) {
	const records = 600
	h := newHome(t, async(3))
	var mu sync.Mutex
	s := h.start()
	current := func() running { mu.Lock(); defer mu.Unlock(); return s }
	ready := make(chan bool)
	go func() { s.joinAll(0, 0, 1, 2); s.reportDataset(t, records); close(ready) }()
	<-ready
	trained := make([]int, records)
	var steps int
	err := rig.Each(4, func(i int) error {
		if i == 3 {
			for crash := range 5 {
				for { // until there was progress
					mu.Lock()
					enough := steps > 8*(crash+1)
					mu.Unlock()
					if enough {
						break
					}
				}
				mu.Lock()
				s.stop()
				<-s.ended
				s = h.start()
				mu.Unlock()
			}
			return nil
		}
		var finished []*rpc.Task
		for number := uint64(0); ; {
			r, err := current().ask(1, uint32(i), number, finished...)
			switch {
			case errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Canceled):
				continue
			case err != nil:
				return err
			case r.EndOfData:
				return nil
			}
			number++
			finished = nil
			if r.Task == nil {
				continue
			}
			mu.Lock()
			for _, part := range r.Task.Records {
				for record := part.From; record < part.To; record++ {
					trained[record]++
				}
			}
			steps++
			mu.Unlock()
			finished = []*rpc.Task{r.Task}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(trained, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("record %d was trained %d times", i, trained[i])
	}
	for rank := range uint32(3) {
		if err := s.leave(t.Context(), rank); err != nil {
			t.Error(err)
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
