package queue_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// A task may be larger than any file, however many records lie before it: it then ends with the files that came together.
func TestTaskLargerThanItsFiles(t *testing.T) {
	p := queue.Policy{Passes: 1, Trainers: 1, RecordsPerTask: math.MaxInt64, MaxFailures: 1}
	q, _, err := queue.New(p, queue.Dataset{Name: "d", Following: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"first", "second"} {
		if _, err := q.Step(0, queue.FilesAdded{Files: []*rpc.DataFile{{Path: path, Records: 10}}}); err != nil {
			t.Fatal(err)
		}
		got, err := q.Step(0, queue.TaskWanted{Incarnation: 1, Request: uint64(i)})
		if err != nil || got.Grant.Task == nil || len(got.Grant.Task.Records) != 1 {
			t.Fatal(got.Grant, err)
		}
		if r, from := got.Grant.Task.Records[0], int64(10*i); r.From != from || r.To != from+10 {
			t.Errorf("task %d has the records %v", got.Grant.Task.Id, r)
		}
	}
}
