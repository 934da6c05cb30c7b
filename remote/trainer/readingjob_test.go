package trainer

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// readingJob is a fakeCoordinator and the data of a job whose tasks are 10 records, in batches of 5.
type readingJob struct {
	*fakeCoordinator
	client rpc.CoordinatorClient
	model  testkit.Model
	data   map[string][]string

	begin          *job.Progress // async: where the job begins; may be nil
	asksPermission bool          // sync: rounds need it
}

func newReadingJob(t *testing.T, m testkit.Model, data map[string][]string, p queue.Policy) *readingJob {
	p.RecordsPerTask, p.MaxFailures, p.MinTimeout, p.MaxTimeout = 10, 1, time.Hour, time.Hour
	j := &readingJob{fakeCoordinator: newFakeCoordinator(p), model: m, data: data}
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, j.fakeCoordinator)
	j.client = rpc.NewCoordinatorClient(pstest.Serve(t, service))
	return j
}

// join makes a trainer of the first generation.
func (j *readingJob) join(ctx context.Context, rank uint32) (*generationRun, error) {
	cfg := Config{Identity: wire.Identity{Job: pstest.Identity.Job, Program: pstest.Identity.Program}, Rank: id.Rank(rank), Sync: j.policy.Sync,
		Coordinator: j.client, Program: j.model.Program}
	c := caller{unavailable: time.Hour}
	trainer := &Trainer{cfg: cfg, caller: c, members: newMembership(&cfg, c), comm: &Comm{}}
	in, err := trainer.members.next(ctx)
	return &generationRun{Trainer: trainer, in: in}, err
}

// source opens the batches of a trainer.
func (j *readingJob) source(ctx context.Context, g *generationRun) (source, error) {
	reader, err := executor.OpenReader(ctx, j.model.Program, j.data)
	if err != nil {
		return nil, err
	}
	name, opened := reader.Dataset()
	calls := &taskCalls{coordinator: j.client, caller: g.caller, in: g.in, dataset: name}
	if err := calls.reportDataset(ctx, opened); err != nil {
		return nil, err
	}
	read := newTaskReader(calls, reader, &taskFiles{data: opened})
	if !j.policy.Sync {
		return newAsyncSource(read, &rpc.JoinResponse{Round: j.begin.GetSteps(), Segment: &rpc.Segment{Pass: j.begin.GetPass()}},
			ledger{func() error { return nil }, func() bool { return false }, func(context.Context) error { return nil }}), nil
	}
	return newSyncSource(read, j.asksPermission, nil)
}

// readAs joins as a rank and reads to the end. begin may change where.
func (j *readingJob) readAs(ctx context.Context, rank uint32, begin func(*generationRun), each func()) ([][]ranges.Range, error) {
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

func atTheBeginning(*generationRun) {}

// read trains nothing on every batch of a source, and returns the records of each pass.
func read(ctx context.Context, s source, each func()) (passes [][]ranges.Range, err error) {
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
func (j *readingJob) readAll(t *testing.T, n, passes int) [][]ranges.Range {
	t.Helper()
	all := make([][]ranges.Range, passes)
	var mu sync.Mutex
	var ranks []uint32
	for rank := range n {
		ranks = append(ranks, uint32(rank))
	}
	ctx := bounded(t)
	began := make(chan error, 1)
	go func() { began <- j.regroup(ctx, ranks...) }()
	err := pstest.Parallel(n, func(rank int) error {
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
func counts(records int, ranges []ranges.Range) []int {
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
