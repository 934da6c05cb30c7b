package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"google.golang.org/grpc"
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
	from := func(round uint64, segment *rpc.Segment) []ranges.Range {
		j := newReadingJob(t, model, data, queue.Policy{Sync: true, Passes: 1, Trainers: 1})
		began := make(chan error, 1)
		go func() { began <- j.regroup(bounded(t), 0) }()
		passes, err := j.readAs(bounded(t), 0, func(l *generationRun) { l.in.Round, l.in.Segment = round, segment }, func() {})
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
		all := recordsOf(whole)
		for first := 5; first < len(all); first += 5 {
			got := recordsOf(from(segment.FirstRound+uint64(first/5), segment))
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
	f := &taskFiles{data: &dataset.Dataset{}}
	for _, r := range []ranges.Range{{From: 25, To: 30}, {From: 15, To: 35}, {From: 0, To: 40}} {
		at := r.From
		for record, err := range f.records(t.Context(), &rpc.Task{Files: named}, []ranges.Range{r}) {
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
		f := &taskFiles{data: &dataset.Dataset{}}
		var last error
		for _, err := range f.records(t.Context(), &rpc.Task{Files: c.files}, []ranges.Range{{From: 0, To: 40}}) {
			last = err
		}
		if fault.KindOf(last) != c.kind {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// Trap 15: a task is reported finished when its records have been trained, not when they have been read: by a batch that begins in one task and ends
// in the next, by reading ahead, or into a shuffle buffer.
func TestTasksAreFinishedWhenTrained(t *testing.T) {
	const records = 60
	for name, m := range map[string]testkit.Model{"in order": testkit.Reading(t, 4, optimizer.SGD(0.1)), "ahead and shuffled": shuffling(t, 4, 7)} {
		for _, sync := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sync=%v", name, sync), func(t *testing.T) {
				j := newReadingJob(t, m, testkit.Samples(t, t.TempDir(), records), queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
				s := j.alone(t)
				defer s.Close()
				var err error
				var trained, given []ranges.Range // a batch is trained when the next one is asked for
				for err == nil {
					trained = append(trained, given...)
					var batch *executor.Batch
					if batch, err = s.Next(bounded(t)); err == nil {
						given = slices.Clone(batch.Records)
					}
					done := j.status().Done // the first tasks, as there is one trainer
					if i := slices.Index(counts(records, trained)[:10*done], 0); i >= 0 {
						t.Fatalf("%d tasks of 10 records are finished, and record %d has not been trained", done, i)
					}
				}
				if q := j.status(); !errors.Is(err, io.EOF) || q.Done != records/10 {
					t.Errorf("at the end %v, %v", q, err)
				}
			})
		}
	}
}

// The same for a trainer that is drained, also while it asks for another batch: the records trained of a shuffle buffer say nothing about the task
// before.
func TestTasksAreHandedInWhenTrained(t *testing.T) {
	const records = 60
	data := testkit.Samples(t, t.TempDir(), records)
	ordered, shuffled := testkit.Reading(t, 4, optimizer.SGD(0.1)), shuffling(t, 4, 25)
	for i, m := range []testkit.Model{ordered, ordered, shuffled, shuffled} {
		sync := i%2 == 0
		for batches := 1; batches < records/4; batches++ {
			j := newReadingJob(t, m, data, queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
			s := j.alone(t)
			var trained []ranges.Range
			reading, drain := context.WithCancel(bounded(t))
			for range batches {
				batch, err := s.Next(reading)
				if err != nil {
					t.Fatal(err)
				}
				trained = append(trained, batch.Records...)
			}
			drain()
			for batches%2 == 0 { // it asks for more; what has been read ahead may still come
				batch, err := s.Next(reading)
				if err != nil {
					break
				}
				trained = append(trained, batch.Records...)
			}
			if err := s.HandIn(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if done := j.status().Done; slices.Contains(counts(records, trained)[:10*done], 0) {
				t.Errorf("case %d, sync %v: %d tasks of 10 records are finished after %d batches, with %v", i, sync, done, batches, trained)
			}
		}
	}
}

// In async mode a task is reported finished when its last step is in the ledger. Else the records of that step would be in neither when the trainer
// is lost in between.
func TestTasksAreFinishedWhenInTheLedger(t *testing.T) {
	const records = 40
	for name, end := range map[string]func(source) error{
		"at the end of the data": func(s source) error { _, err := s.Next(bounded(t)); return err },
		"drained":                func(s source) error { return s.HandIn(bounded(t)) },
	} {
		j := newReadingJob(t, testkit.Reading(t, 4, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records), queue.Policy{Passes: 1, Trainers: 1})
		s := j.alone(t).(*asyncSource)
		for range records / 4 {
			if _, err := s.Next(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
		broken := fault.New(fault.LostMember, "a ledger that is gone")
		s.ledger.settle = func() error { return broken }
		if err := end(s); !errors.Is(err, broken) {
			t.Errorf("%s, without the ledger: %v, want %v", name, err, broken)
		}
		if q := j.status(); q.Done == records/10 {
			t.Errorf("%s: all %d tasks are finished, and the last step is in no ledger", name, q.Done)
		}
		s.Close()
	}
}

// A coordinator that answers at once where it is to wait is asked no second time: the trainer would ask without end.
func TestAnswersThatDoNotWait(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for name, answer := range map[string]*rpc.GetTaskResponse{"pending": {Pending: true}, "nothing": {}} {
			t.Run(fmt.Sprintf("%s, sync=%v", name, sync), func(t *testing.T) {
				data := testkit.Samples(t, t.TempDir(), 10)
				j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), data, queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
				j.client = &oneAnswer{CoordinatorClient: j.client, answer: answer}
				s := j.alone(t)
				defer s.Close()
				if _, err := s.Next(bounded(t)); fault.KindOf(err) != fault.Internal {
					t.Errorf("it goes on with %v", err)
				}
			})
		}
	}
}

// oneAnswer is a coordinator that gives one answer to requests for tasks, and an error to those who ask again.
type oneAnswer struct {
	rpc.CoordinatorClient
	answer *rpc.GetTaskResponse
	asked  bool
}

func (h *oneAnswer) GetTask(context.Context, *rpc.GetTaskRequest, ...grpc.CallOption) (*rpc.GetTaskResponse, error) {
	if h.asked {
		return nil, fault.New(fault.Unsupported, "a second request")
	}
	h.asked = true
	return h.answer, nil
}
