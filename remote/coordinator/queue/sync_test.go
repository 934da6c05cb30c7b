package queue_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
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
		if _, err := q.Step(0, queue.TaskFailed{Task: &rpc.Task{}, Reason: "damaged"}); err != nil {
			t.Fatal(err)
		}
		var committed ranges.Set
		for i := range runs {
			committed = append(committed, ranges.Range{From: 2*i + 1, To: 2*i + 2})
		}
		if _, err := q.Step(0, queue.Regrouped{Round: 1, Committed: committed}); !errors.Is(err, kind) || (kind == nil) != (err == nil) {
			t.Errorf("%d runs of records that are done: %v, want %v", runs, err, kind)
		}
	}
}

// However many records a trainer of a sync job wants, what it is given is no larger than a message may be, and of at least one task.
func TestGrantsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		data        queue.Dataset
		wanted      int64
		least, most int // tasks
	}{
		"all":        {queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 1e6}}}, math.MaxInt64, 1000, 1 << 14},
		"none":       {queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 1e6}}}, math.MinInt64, 1, 1},
		"long paths": {queue.Dataset{Name: "d", Following: true}, math.MaxInt64, 16, 32},
	} {
		t.Run(name, func(t *testing.T) {
			q, _, err := queue.New(queue.Policy{Sync: true, Passes: 1, Trainers: 1, RecordsPerTask: 1}, c.data)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; c.data.Following && i < 100; i++ {
				path := fmt.Sprint(i, strings.Repeat("/path", 800))
				if _, err := q.Step(0, queue.FilesAdded{Files: []*rpc.DataFile{{Path: path, Records: 1}}}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := q.Step(0, queue.TaskWanted{Records: c.wanted})
			if err != nil {
				t.Fatal(err)
			}
			bytes := proto.Size(&rpc.GetTaskResponse{Task: got.Grant.Task, Next: got.Grant.Next})
			if n := 1 + len(got.Grant.Next); n < c.least || n > c.most || bytes > 100<<10 || q.Status().Pending != int64(n) {
				t.Errorf("%d tasks in %d bytes, %v", n, bytes, q.Status())
			}
			if len(got.Changes) != 1 || len(got.Changes[0].Value) > 64 {
				t.Errorf("changes %v", got.Changes)
			}
		})
	}
}
