package queue_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
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

// A job that goes on within a pass knows which records were trained before, whatever the shuffle: after a failure the segment leaves out exactly those.
func TestTrainedBeforeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, pass := rapid.Int64Range(1, 60).Draw(t, "records"), rapid.Int32Range(0, 2).Draw(t, "pass")
		r := queue.Reading{Rows: rapid.Int64Range(1, 9).Draw(t, "rows"), ShuffleBuffer: rapid.IntRange(0, 25).Draw(t, "shuffle"),
			ShuffleSeed: rapid.Uint64Range(0, 3).Draw(t, "seed")}
		start := queue.Position{Round: 30, Pass: pass, Batch: rapid.Uint64Range(0, uint64(n/r.Rows)+2).Draw(t, "batch")}
		q, _, err := queue.New(queue.Policy{Sync: true, Start: start, Passes: 2, Reading: r, RecordsPerTask: rapid.Int64Range(1, 20).Draw(t, "task"),
			MaxFailures: 1}, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: n}}})
		if err != nil {
			t.Fatal(err)
		}
		if g := q.Segment(30); g.Pass != pass || g.FirstRound != 30 || g.FirstBatch != start.Batch || len(g.Skip) > 0 {
			t.Fatalf("segment %v", g)
		}
		records := func(yield func(dataset.Record, error) bool) {
			for i := int64(0); i < n && yield(dataset.Record{Number: i}, nil); i++ {
			}
		}
		var trained []ranges.Range
		for record := range dataset.Shuffle(records, r.ShuffleBuffer, r.ShuffleSeed, uint64(pass)) {
			if int64(len(trained)) < int64(start.Batch)*r.Rows {
				trained = append(trained, ranges.Range{From: record.Number, To: record.Number + 1})
			}
		}
		before := ranges.Of(trained...)
		for _, e := range []queue.Event{queue.TaskFailed{Task: &rpc.Task{Pass: pass}, Reason: "broken"}, queue.Regrouped{Round: 30, Pass: pass}} {
			if _, err := q.Step(0, e); err != nil {
				t.Fatal(err)
			}
		}
		if g := q.Segment(30); !slices.Equal(ranges.Of(wire.RangesOf(g.Skip)...), before) || g.FirstBatch != 0 {
			t.Fatalf("after a failure %v, want to skip %v", g, before)
		}
	})
}
