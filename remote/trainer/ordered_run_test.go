package trainer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

func taskOf(id int64, bounds ...int64) *rpc.Task {
	t := &rpc.Task{Id: id, Files: []*rpc.DataFile{{Path: fmt.Sprint("f", id/2), FirstRecord: 20 * (id / 2), Records: 20}}}
	for i := 0; i < len(bounds); i += 2 {
		t.Records = append(t.Records, &rpc.RecordRange{From: bounds[i], To: bounds[i+1]})
	}
	return t
}

// Tasks of one answer are read as one, from as few ranges as possible, and each knows its records.
func TestRunOfTasks(t *testing.T) {
	answer := &rpc.GetTaskResponse{Task: taskOf(0, 3, 10), Next: []*rpc.Task{taskOf(1, 10, 14, 16, 20), taskOf(2, 20, 30), taskOf(3, 30, 40)}}
	n, err := runOf(answer, 3, skips{{From: 0, To: 2}, {From: 20, To: 30}, {From: 35, To: 40}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []dataset.Range{{From: 3, To: 14}, {From: 16, To: 20}, {From: 30, To: 35}}; !slices.Equal(n.ranges, want) || n.to != 40 {
		t.Errorf("%v up to %d, want %v", n.ranges, n.to, want)
	}
	for i, want := range []int64{7, 8, 0, 5} {
		if got := n.records(i); got != want {
			t.Errorf("task %d has %d records, want %d", i, got, want)
		}
	}
	for read, want := range map[int64]int64{0: 0, 6: 0, 7: 1, 14: 1, 15: 3, 19: 3, 20: 3} {
		if got := n.holding(read).Id; got != want {
			t.Errorf("after %d records comes task %d, want %d", read, got, want)
		}
	}
	if len(n.whole.Files) != 2 || n.whole.Files[1].FirstRecord != 20 {
		t.Errorf("files %v", n.whole.Files)
	}
}

// A coordinator that gives tasks out of order, or without records, is not believed.
func TestRunsAreChecked(t *testing.T) {
	for name, answer := range map[string]*rpc.GetTaskResponse{
		"nothing":    {Task: taskOf(0)},
		"the past":   {Task: taskOf(0, 0, 3)},
		"backwards":  {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(0, 5, 10)}},
		"twice":      {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(1, 10, 20)}},
		"then empty": {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(2)}},
	} {
		if n, err := runOf(answer, 3, nil); !errors.Is(err, fault.Internal) {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
}

// A sync job asks for tasks once in askRounds rounds, however small they are.
func TestSmallTasksAreAskedForTogether(t *testing.T) {
	const records, batch = 2000, 5
	j := newReadingJob(t, testkit.Reading(t, batch, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records),
		queue.Policy{Sync: true, Passes: 1, Trainers: 1})
	s := j.alone(t)
	passes, err := read(bounded(t), s, func() {})
	if err != nil || len(passes) != 1 {
		t.Fatal(passes, err)
	}
	if q := j.status(); q.Done != records/10 {
		t.Errorf("at the end: %v", q)
	}
	if most := records/(batch*askRounds) + 1; j.gets > most { // nobody asks any more
		t.Errorf("asked %d times for tasks of %d rounds, want at most %d", j.gets, records/batch, most)
	}
}
