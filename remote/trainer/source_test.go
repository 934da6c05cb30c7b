package trainer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Trainers share the records of every pass: each is read once, in sync and in async mode.
func TestTasksAreReadOnce(t *testing.T) {
	const records, passes = 73, 3
	for _, sync := range []bool{true, false} {
		for trainers := 1; trainers <= 3; trainers++ {
			t.Run(fmt.Sprintf("sync=%v/%d", sync, trainers), func(t *testing.T) {
				j := newReadingJob(t, shuffling(t, 5, 7), testkit.Samples(t, t.TempDir(), records), queue.Policy{Sync: sync, Passes: passes, Trainers: trainers})
				for pass, ranges := range j.readAll(t, trainers, passes) {
					if got := counts(records, ranges); slices.Max(got) != 1 || slices.Min(got) != 1 {
						t.Errorf("pass %d read %v", pass, got)
					}
				}
				if q := j.status(); q.Done != 8 || q.Pass != passes-1 || q.Todo+q.Pending+q.Discarded != 0 {
					t.Errorf("at the end: %v", q)
				}
			})
		}
	}
}

// A segment may begin anywhere: what is left of the order is the same, whatever is left out of it before.
func TestOrderedBeginsAnywhere(t *testing.T) {
	const records = 73
	data := testkit.Samples(t, t.TempDir(), records)
	model := shuffling(t, 5, 7)
	from := func(round uint64, segment *rpc.Segment) []dataset.Range {
		j := newReadingJob(t, model, data, queue.Policy{Sync: true, Passes: 1, Trainers: 1})
		began := make(chan error, 1)
		go func() { began <- j.regroup(bounded(t), 0) }()
		passes, err := j.readAs(bounded(t), 0, func(l *life) { l.of.Round, l.of.Segment = round, segment }, func() {})
		if err := errors.Join(err, <-began); err != nil || len(passes) != 1 {
			t.Fatal(passes, err)
		}
		return passes[0]
	}
	skip := []*rpc.RecordRange{{From: 3, To: 5}, {From: 9, To: 30}, {From: 72, To: 73}}
	for _, segment := range []*rpc.Segment{{}, {FirstRound: 4, Skip: skip}} {
		whole := from(segment.FirstRound, segment)
		in := counts(records, whole)
		for i, n := range in {
			left := slices.ContainsFunc(segment.Skip, func(r *rpc.RecordRange) bool { return r.From <= int64(i) && int64(i) < r.To })
			if left != (n == 0) || n > 1 {
				t.Errorf("record %d was read %d times, left out: %v", i, n, left)
			}
		}
		flat := func(ranges []dataset.Range) (out []int64) {
			for _, r := range ranges {
				for i := r.From; i < r.To; i++ {
					out = append(out, i)
				}
			}
			return out
		}
		all := flat(whole)
		for first := 5; first < len(all); first += 5 {
			got := flat(from(segment.FirstRound+uint64(first/5), segment))
			if !slices.Equal(got, all[first:]) {
				t.Fatalf("from batch %d on: %v, want %v", first/5, got, all[first:])
			}
		}
	}
}

// Where a dataset follows a folder, tasks name the files that hold their records.
func TestTasksNameTheirFiles(t *testing.T) {
	data := testkit.Samples(t, t.TempDir(), 40)
	reader, err := executor.OpenReader(t.Context(), testkit.Reading(t, 5, optimizer.SGD(0.1)).Program, data)
	if err != nil {
		t.Fatal(err)
	}
	_, whole := reader.Dataset()
	var named []*rpc.DataFile
	for _, f := range whole.Files() {
		named = append(named, &rpc.DataFile{Path: f.Path, FirstRecord: f.FirstRecord, Records: f.Records, Bytes: f.Bytes, Fingerprint: f.Fingerprint})
	}
	f := &files{data: &dataset.Dataset{}}
	for _, r := range []dataset.Range{{From: 25, To: 30}, {From: 15, To: 35}, {From: 0, To: 40}} {
		at := r.From
		for record, err := range f.records(t.Context(), &rpc.Task{Files: named}, []dataset.Range{r}) {
			if err != nil {
				t.Fatal(err)
			}
			if record.Number != at {
				t.Errorf("record %d, want %d", record.Number, at)
			}
			at++
		}
		if at != r.To {
			t.Errorf("%v ends at %d", r, at)
		}
	}
	for name, c := range map[string]struct {
		files []*rpc.DataFile
		kind  fault.Kind
	}{
		"another file":    {[]*rpc.DataFile{{Path: named[0].Path, Records: 40, Bytes: named[0].Bytes}}, fault.Corrupt},
		"no file of some": {named[:1], fault.NotFound},
	} {
		f := &files{data: &dataset.Dataset{}}
		var last error
		for _, err := range f.records(t.Context(), &rpc.Task{Files: c.files}, []dataset.Range{{From: 0, To: 40}}) {
			last = err
		}
		if fault.KindOf(last) != c.kind {
			t.Errorf("%s: %v", name, last)
		}
	}
}
