package coordinator_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// The values of the last step turn out to be impossible to merge when all trainers have left: the job has failed all the same.
func TestLastStepThatCannotBeMerged(t *testing.T) {
	cfg := config(1)
	merging, over := make(chan struct{}), make(chan struct{})
	cfg.Merge = func([]*rpc.TrainerStep) ([]*job.Value, error) {
		close(merging)
		<-over
		return nil, fault.New(fault.ShapeMismatch, "rows of other lengths")
	}
	s := newHome(t, cfg).start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	reported := make(chan error, 1)
	whole := half(1, 0, 0)
	whole.Rows = whole.GlobalRows
	go func() { reported <- s.report(t.Context(), whole) }()
	<-merging
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		_, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d"})
		ended = errors.Is(wire.FromStatus("coordinator", err), fault.Stale)
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	close(over)
	if err := <-reported; !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("the report is answered with %v", err)
	}
	if err := <-s.ended; !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("the job ends with %v", err)
	}
}
