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
	"github.com/edl-go/edl/remote/id"
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

// A failure moves the end of its pass, and there the next pass begins, however the records that are left out fill batches. A job that ends before has no
// such round.
func TestPassEndAfterFailure(t *testing.T) {
	q, _, err := queue.New(queue.Policy{Sync: true, Passes: 3, RecordsPerTask: 15, Reading: queue.Reading{Rows: 10}},
		queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 91}}})
	if err != nil {
		t.Fatal(err)
	}
	step := func(e queue.Event) {
		t.Helper()
		if _, err := q.Step(0, e); err != nil {
			t.Fatal(err)
		}
	}
	want := func(after, end id.Round, known bool) {
		t.Helper()
		if at, ok := q.PassEnd(after); ok != known || ok && at != end {
			t.Errorf("behind round %d a pass ends at %d (%t), want %d (%t)", after, at, ok, end, known)
		}
	}
	want(0, 10, true)
	step(queue.TaskFailed{Task: &rpc.Task{}, Reason: "damaged"})
	step(queue.Regrouped{Round: 2}) // leaves 76 records
	want(2, 10, true)
	want(10, 18, true)
	want(18, 0, false)
	if at, _, ok := q.Position(10); !ok || at != (queue.Position{Round: 10, Pass: 1}) {
		t.Errorf("round 10 lies at %+v (%t)", at, ok)
	}
	step(queue.TaskWanted{Pass: 1, Round: 10, Records: 10})
	want(9, 10, true) // where trainers were
	want(10, 18, true)
	step(queue.TaskWanted{Pass: 2, Round: 18, Records: 10})
	want(0, 10, true) // trainers are ahead
	want(9, 10, true)
	want(10, 18, true)
	want(18, 0, false)
	step(queue.TaskFailed{Task: &rpc.Task{Id: 1, Pass: 2}, Reason: "damaged"})
	step(queue.Regrouped{Round: 16, Pass: 1}) // the last pass had not begun after all
	want(10, 24, true)                        // and its failure does not count
	step(queue.Stopped{End: 18})
	want(10, 0, false)
	want(9, 10, true)
	following, _, err := queue.New(queue.Policy{Sync: true, Passes: 1, Reading: queue.Reading{Rows: 10}}, queue.Dataset{Name: "d", Following: true})
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := following.PassEnd(0); ok {
		t.Errorf("a dataset that follows a folder has the end %d", at)
	}
}

// A sync job that its user ends while it waits for files ends with the last batch that is full, whatever round was permitted: no trainer waits for another file.
func TestStoppedWhileItWaitsForFiles(t *testing.T) {
	q, _, err := queue.New(queue.Policy{Sync: true, Passes: 1, Trainers: 1, RecordsPerTask: 16, Reading: queue.Reading{Rows: 8}}, queue.Dataset{Name: "d", Following: true})
	if err != nil {
		t.Fatal(err)
	}
	step := func(e queue.Event) queue.Grant {
		t.Helper()
		effects, err := q.Step(0, e)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		return effects.Grant
	}
	step(queue.FilesAdded{Files: []*rpc.DataFile{{Path: "f", Records: 100}}})
	step(queue.TaskWanted{Records: 100})
	wanted := queue.TaskWanted{Position: 100, Records: 8, Round: 12}
	if g := step(wanted); !g.Wait {
		t.Errorf("behind the last file: %+v", g)
	}
	if at := q.Covered(); at != 12 {
		t.Errorf("trainers need more records for round %d, want 12", at)
	}
	step(queue.Stopped{End: 20})
	if g := step(wanted); g.Wait || !g.EndOfData || g.EndRound == nil || *g.EndRound != 12 {
		t.Errorf("after the end: %+v", g)
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
