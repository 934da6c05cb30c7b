package view

import (
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// Each record of a pass is trained, given up or outstanding. A task that was discarded when a part of it was trained is left out as a whole in later
// passes.
func TestLedgerSums(t *testing.T) {
	d := &rpc.JobDetails{Status: &job.JobStatus{State: job.State_SUCCEEDED},
		Queues: &rpc.QueuesResponse{Queues: []*rpc.QueueStatus{{Records: 100, Pass: 2, Discards: []*rpc.PassDiscards{{Pass: 0, Records: 3, Later: 10},
			{Pass: 1, Records: 10, Later: 10}}}}},
		Ledger: &rpc.LedgerResponse{Passes: []*rpc.PassLedger{{Pass: 0, Records: 97}, {Pass: 1, Records: 80}, {Pass: 2, Records: 80}}}}
	for _, s := range AddUp(d) {
		if !s.Agrees || s.NotYet != 0 || s.Once+s.Discarded+s.NotYet != s.Records {
			t.Errorf("pass %d: %+v", s.Pass, s)
		}
	}
	d.Ledger.Passes[1].Records = 79
	if s := AddUp(d)[1]; s.Agrees || s.NotYet != 1 {
		t.Errorf("a record that was lost: %+v", s)
	}
	d.Ledger.Passes[2].Records = 81
	if s := AddUp(d)[2]; s.Agrees || s.NotYet != -1 {
		t.Errorf("a record that was trained and given up: %+v", s)
	}
}

// Without queues of a coordinator nothing can be compared: records are not too many where the dataset is not known.
func TestLedgerWithoutQueues(t *testing.T) {
	for _, queues := range []*rpc.QueuesResponse{nil, {Checkpoint: &job.CheckpointStatus{Steps: 30}}} {
		d := &rpc.JobDetails{Status: &job.JobStatus{State: job.State_FAILED}, Queues: queues, Ledger: &rpc.LedgerResponse{Passes: []*rpc.PassLedger{{Records: 1920, Again: 2}}}}
		if got, want := AddUp(d), (PassSum{Once: 1920, Again: 2, Unknown: true}); len(got) != 1 || got[0] != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// The last pass of a dataset is over when nothing of it is left to train, and only then.
func TestCompletePasses(t *testing.T) {
	for _, c := range []struct {
		q    *rpc.QueueStatus
		want int32
	}{
		{&rpc.QueueStatus{Pass: 2, Passes: 3, Done: 4}, 3},
		{&rpc.QueueStatus{Pass: 2, Passes: 3, Done: 3, Discarded: 1}, 3},
		{&rpc.QueueStatus{Pass: 2, Passes: 3, Todo: 1, Done: 3}, 2},
		{&rpc.QueueStatus{Pass: 2, Passes: 3, Pending: 1, Done: 3}, 2},
		{&rpc.QueueStatus{Pass: 1, Passes: 3, Done: 4}, 1},
		{&rpc.QueueStatus{Pass: 0, Passes: 1}, 0},
		{&rpc.QueueStatus{Pass: 0, Passes: 1, Done: 4, Following: true}, 0},
	} {
		if got := CompletePasses(c.q); got != c.want {
			t.Errorf("%v: %d passes, want %d", c.q, got, c.want)
		}
	}
}
