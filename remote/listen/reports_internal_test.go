package listen

import (
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// An answer of the coordinator that was under way while a checkpoint was made does not hide it, and a newer checkpoint does.
func TestReportsKnowTheLastCheckpoint(t *testing.T) {
	at := func(steps uint64) *rpc.QueuesResponse {
		return &rpc.QueuesResponse{Phase: "running", Checkpoint: &job.CheckpointStatus{Steps: steps}}
	}
	r := newReports()
	r.enterSaved(&job.CheckpointStatus{Steps: 7})
	for i, c := range []struct {
		answer *rpc.QueuesResponse
		want   uint64
	}{{&rpc.QueuesResponse{Phase: "running"}, 7}, {at(3), 7}, {at(7), 7}, {at(9), 9}, {at(9), 9}} {
		if r.enterQueues(c.answer); r.queues.Phase != "running" || r.queues.Checkpoint.GetSteps() != c.want {
			t.Errorf("answer %d: %v, want %d steps", i, r.queues, c.want)
		}
	}
	before := r.queues
	r.enterSaved(&job.CheckpointStatus{Steps: 12})
	if r.queues.Checkpoint.Steps != 12 || before.Checkpoint.Steps != 9 {
		t.Errorf("after another checkpoint: %v; the answer that others may read: %v", r.queues, before)
	}
}
