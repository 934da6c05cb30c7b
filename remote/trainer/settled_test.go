package trainer

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// In async mode a task is reported finished when its last step is in the ledger. Else the records of that step would be in neither when the trainer
// is lost in between.
func TestTasksAreFinishedWhenInTheLedger(t *testing.T) {
	const records = 40
	for name, end := range map[string]func(source) error{
		"at the end of the data": func(s source) error { _, err := s.Next(bounded(t)); return err },
		"drained":                func(s source) error { return s.HandIn(bounded(t)) },
	} {
		j := newReadingJob(t, testkit.Reading(t, 4, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records), queue.Policy{Passes: 1, Trainers: 1})
		s := j.alone(t).(*dispatched)
		for range records / 4 {
			if _, err := s.Next(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
		broken := fault.New(fault.LostMember, "a ledger that is gone")
		s.settle = func() error { return broken }
		if err := end(s); !errors.Is(err, broken) {
			t.Errorf("%s, without the ledger: %v, want %v", name, err, broken)
		}
		if q := j.status(); q.Done == records/10 {
			t.Errorf("%s: all %d tasks are finished, and the last step is in no ledger", name, q.Done)
		}
		s.Close()
	}
}
