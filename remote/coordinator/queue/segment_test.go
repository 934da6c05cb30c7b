package queue_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// A segment leaves out a bounded number of runs of records, so that it stays a small entry: with more the job ends rather than grow.
func TestSegmentOfManyRuns(t *testing.T) {
	const most = 1 << 15
	for runs, kind := range map[int64]error{most: nil, most + 1: fault.TooLarge} {
		q, _, err := queue.New(queue.Policy{Sync: true, Passes: 1, RecordsPerTask: 10, MaxFailures: 5},
			queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f",
				Records: 4 * most}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Step(0, queue.Fail{Task: &rpc.Task{}, Reason: "damaged"}); err != nil {
			t.Fatal(err)
		}
		var committed []*rpc.RecordRange
		for i := range runs {
			committed = append(committed, &rpc.RecordRange{From: 2*i + 1, To: 2*i + 2})
		}
		if _, err := q.Step(0, queue.Regroup{Round: 1, Committed: committed}); !errors.Is(err, kind) || (kind == nil) != (err == nil) {
			t.Errorf("%d runs of records that are done: %v, want %v", runs, err, kind)
		}
	}
}
