package coordinator_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
)

// A change that is durable although its answer was lost has happened: what follows builds on it. Otherwise a task would be given to two trainers.
func TestLostAnswerOfTheStore(t *testing.T) {
	h := newHome(t, async(2))
	s := h.start()
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 100)
	first := s.mustAsk(1, 0, 0)
	h.store.failing(func(changes []cluster.Change) error {
		h.store.apply(changes)
		return fault.New(fault.Unavailable, "no answer")
	})
	if _, err := s.ask(1, 0, 1, first); !errors.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	h.store.failing(nil)
	other, repeated := s.mustAsk(1, 1, 0), s.mustAsk(1, 0, 1, first)
	if repeated.Id != first.Id+1 || repeated.Epoch != 1 || other.Id != first.Id+2 {
		t.Errorf("the request whose answer was lost is given task %d, dispatch %d, and another trainer task %d; want %d, 1 and %d", repeated.Id,
			repeated.Epoch, other.Id, first.Id+1, first.Id+2)
	}
}
