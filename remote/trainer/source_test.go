package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// readingJob is a conductor and the data of a job whose tasks are 10 records, in batches of 5.
type readingJob struct {
	*conductor
	client rpc.CoordinatorClient
	model  testkit.Model
	data   map[string][]string
}

func newReadingJob(t *testing.T, m testkit.Model, data map[string][]string, p queue.Policy) *readingJob {
	p.RecordsPerTask, p.MaxFailures, p.MinTimeout, p.MaxTimeout = 10, 1, time.Hour, time.Hour
	j := &readingJob{conductor: newConductor(p), model: m, data: data}
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, j.conductor)
	j.client = rpc.NewCoordinatorClient(rig.Serve(t, service))
	return j
}

// join makes a trainer of the first generation.
func (j *readingJob) join(ctx context.Context, rank uint32) (*life, error) {
	cfg := Config{Identity: wire.Identity{Job: rig.Identity.Job, Program: rig.Identity.Program}, Rank: rank, Sync: j.policy.Sync, Coordinator: j.client,
		Patience: time.Hour, Program: j.model.Program}
	ask := asking{patience: time.Hour}
	trainer := &Trainer{cfg: cfg, ask: ask, members: newMembership(&cfg, ask), comm: &Comm{}}
	g, err := trainer.members.next(ctx)
	return &life{Trainer: trainer, of: g}, err
}

// source opens the batches of a trainer.
func (j *readingJob) source(ctx context.Context, l *life) (source, error) {
	reader, err := executor.OpenReader(ctx, j.model.Program, j.data)
	if err != nil {
		return nil, err
	}
	name, opened := reader.Dataset()
	calls := &tasks{coordinator: j.client, ask: l.ask, of: l.of, rank: l.cfg.Rank, dataset: name}
	if err := calls.report(ctx, opened); err != nil {
		return nil, err
	}
	if !j.policy.Sync {
		return &dispatched{tasks: calls, reader: reader, files: &files{data: opened}, settle: func() error { return nil }}, nil
	}
	return newOrdered(calls, reader, &files{data: opened})
}

// readAs joins as a rank and reads to the end. begin may change where.
func (j *readingJob) readAs(ctx context.Context, rank uint32, begin func(*life), each func()) ([][]dataset.Range, error) {
	l, err := j.join(ctx, rank)
	if err != nil {
		return nil, err
	}
	begin(l)
	s, err := j.source(ctx, l)
	if err != nil {
		return nil, err
	}
	return read(ctx, s, each)
}

func atTheBeginning(*life) {}

// read trains nothing on every batch of a source, and returns the records of each pass.
func read(ctx context.Context, s source, each func()) (passes [][]dataset.Range, err error) {
	defer s.Close()
	for {
		batch, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return passes, nil
		}
		if err != nil {
			return passes, err
		}
		for len(passes) <= batch.Pass {
			passes = append(passes, nil)
		}
		passes[batch.Pass] = append(passes[batch.Pass], batch.Records...)
		each()
	}
}

// readAll lets ranks 0 to n-1 read at the same time, and returns what they read of each pass together.
func (j *readingJob) readAll(t *testing.T, n, passes int) [][]dataset.Range {
	t.Helper()
	all := make([][]dataset.Range, passes)
	var mu sync.Mutex
	var ranks []uint32
	for rank := range n {
		ranks = append(ranks, uint32(rank))
	}
	ctx := bounded(t)
	began := make(chan error, 1)
	go func() { began <- j.regroup(ctx, ranks...) }()
	err := rig.Each(n, func(rank int) error {
		own, err := j.readAs(ctx, uint32(rank), atTheBeginning, func() {})
		mu.Lock()
		defer mu.Unlock()
		for pass, ranges := range own {
			all[pass] = append(all[pass], ranges...)
		}
		return err
	})
	if err := errors.Join(err, <-began); err != nil {
		t.Fatal(err)
	}
	return all
}

func (j *readingJob) status() *rpc.QueueStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.queue.Status()
}

// counts says how often each record was read.
func counts(records int, ranges []dataset.Range) []int {
	out := make([]int, records)
	for _, r := range ranges {
		for i := r.From; i < r.To; i++ {
			out[i]++
		}
	}
	return out
}

// shuffling is testkit.Reading with a shuffled reader.
func shuffling(t testing.TB, batch, buffer int) testkit.Model {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, buffer, 11), batch)))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(v[0], 10, layers.Act("tanh")), 1), v[1]), layers.Name("loss"))
	optimizer.Momentum(0.05, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss)
}

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
				var trained, given []dataset.Range // a batch is trained when the next one is asked for
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

// The same for a trainer that is drained, also while it asks for another batch: what has been trained of a shuffle buffer tells nothing of the task
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
			var trained []dataset.Range
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

// alone opens the batches of the only trainer.
func (j *readingJob) alone(t *testing.T) source {
	t.Helper()
	began := make(chan error, 1)
	go func() { began <- j.regroup(bounded(t), 0) }()
	l, err := j.join(bounded(t), 0)
	if err := errors.Join(err, <-began); err != nil {
		t.Fatal(err)
	}
	s, err := j.source(bounded(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// breakChunk changes a byte in the second chunk of a dataset, which holds records 10 to 19.
func breakChunk(t *testing.T, data map[string][]string) {
	t.Helper()
	opened, err := dataset.Open(t.Context(), data[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	chunk := opened.Chunks()[1]
	b, err := os.ReadFile(chunk.Path)
	if err != nil {
		t.Fatal(err)
	}
	b[chunk.Offset+100] ^= 0xff
	if err := os.WriteFile(chunk.Path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// In async mode a task that no trainer can read goes from one to the next and is discarded; all other records are trained once in every pass.
func TestTaskThatCannotBeRead(t *testing.T) {
	const records = 40
	data := testkit.Samples(t, t.TempDir(), records)
	breakChunk(t, data)
	j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), data, queue.Policy{Passes: 2, Trainers: 2})
	for pass, ranges := range j.readAll(t, 2, 2) {
		for i, n := range counts(records, ranges) {
			if i/10 == 1 && n > 0 || i/10 != 1 && n != 1 {
				t.Errorf("record %d was trained %d times in pass %d", i, n, pass)
			}
		}
	}
	if q := j.status(); q.Discarded != 1 || q.Done != 3 || q.Todo+q.Pending != 0 {
		t.Errorf("at the end: %v", q)
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
