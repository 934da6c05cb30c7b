package trainer

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// rhythms are pairs of how often a trainer pushes and pulls, some beyond the batches of a pass.
var rhythms = [][2]int32{{3, 1}, {1, 1}, {1, 3}, {2, 5}, {5, 2}, {4, 4}, {100, 3}, {2, 100}}

// An async job of one trainer that pushes and pulls in some steps only computes the bits of the reference that does, with forward state, a schedule and
// rounded parameters, and trains each record once, over every transport, however its connections break. What is left at the end of a pass is pushed.
func TestLawOfTheRhythm(t *testing.T) {
	models := map[string]func(testing.TB) testkit.Model{
		"schedule": func(t testing.TB) testkit.Model {
			return testkit.Reading(t, 5, optimizer.Momentum(optimizer.Exponential(0.05, 3, 0.5, false), 0.9))
		},
		"sparse":     func(t testing.TB) testkit.Model { return embedded(t) },
		"tables":     func(t testing.TB) testkit.Model { return embedded(t, layers.Distributed()) },
		"statistics": func(t testing.TB) testkit.Model { return normalizing(t, 5) },
	}
	overEach(t, func(t *testing.T, transport string) {
		for name, model := range models {
			for i, rhythm := range rhythms {
				if testing.Short() && i > 2 || name == "tables" && (i < 2 || i > 4) { // some of them, that have all cases
					continue
				}
				l := lawCase{model: model(t), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 2}
				if name == "sparse" || name == "tables" {
					l.data = lookups(t, 48)
				}
				spec := &job.JobSpec{Trainers: 1, Pservers: 2, Mode: job.Mode_ASYNC, Save: t.TempDir(), Fetch: []string{l.model.Loss},
					PushEvery: rhythm[0], PullEvery: rhythm[1], CompressParameters: "none"}
				if i%2 == 1 { // which changes no bit of a job of one trainer
					spec.Staleness = new(int32)
				}
				if rhythm[0] == 1 && name != "tables" {
					spec.CompressParameters = "bf16"
				}
				c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: l.passes, RecordsPerTask: 48, MaxFailures: 3})
				var calls atomic.Int64
				every := []int64{0, 61}[i%2]
				c.over, c.cut = transport, func() bool { return every > 0 && calls.Add(1)%every == 0 }
				oracle, err := reference.New(l.model.Program, 1)
				if err != nil {
					t.Fatal(err)
				}
				oracle.Rhythm(int(rhythm[0]), int(rhythm[1]))
				if err := oracle.Compress("none", spec.CompressParameters); err != nil {
					t.Fatal(err)
				}
				if _, err := oracle.Train(bounded(t), l.model.Program, executor.TrainOptions{Data: l.data, Passes: l.passes}, nil); err != nil {
					t.Fatal(err)
				}
				if err := c.train(bounded(t), 1); err != nil {
					t.Fatal(err)
				}
				got := testkit.Saved(t, spec.Save, l.model.Program)
				if err := testkit.Difference(got, testkit.Persistables(oracle.Scope(), l.model.Program)); err != nil {
					t.Errorf("%s, push every %d, pull every %d: %v", name, rhythm[0], rhythm[1], err)
				}
				l.checkLedger(t, c, 0)
				l.checkReports(t, c, true)
				if err := oracle.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// embedded looks up rows of a table, whose gradients are sparse, by the ids of lookups. With layers.Distributed they are also the keys of a table that grows.
func embedded(t testing.TB, options ...layers.Option) testkit.Model {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 5)))
	h := layers.Embedding(v[0], 40, 4, append(options, layers.Sparse())...)
	if len(options) > 0 {
		h = layers.Add(h, layers.SparseEmbedding(v[0], 512, 4, layers.EvictUnseen(2)))
	}
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(h, 1), v[1]), layers.Name("loss"))
	optimizer.Adagrad(0.05).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// lookups are records for embedded: some ids are in several batches.
func lookups(t testing.TB, records int) map[string][]string {
	return testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i * i % 40)})
		y := testkit.Random(t, tensor.Float32, uint64(i), 1)
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id, y}
	})
}

// Several trainers that push in some steps only train each record once. A trainer that drains pushes what it has.
func TestRhythmOfSeveralTrainers(t *testing.T) {
	overEach(t, func(t *testing.T, transport string) {
		testRhythmOfSeveralTrainers(t, transport, nil)
		testRhythmOfSeveralTrainers(t, transport, new(int32))
	})
}

func testRhythmOfSeveralTrainers(t *testing.T, transport string, staleness *int32) {
	l := lawCase{model: testkit.Reading(t, 5, optimizer.SGD(0.05)), data: testkit.Samples(t, t.TempDir(), 96), records: 96, passes: 2}
	spec := &job.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, Save: t.TempDir(), Fetch: []string{l.model.Loss}, PushEvery: 3, PullEvery: 2,
		Staleness: staleness}
	c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 7, MaxFailures: 3})
	c.over = transport
	var drained atomic.Bool
	c.call = func(rank uint32, _ int, _ string, round uint64) {
		if rank == 1 && round == 2 && drained.CompareAndSwap(false, true) { // the first push: two steps later it drains, with steps that are not pushed
			c.drainTrainer(1)
		}
	}
	ctx := bounded(t)
	began := make(chan error, 1)
	go func() { began <- c.coordinator.regroup(ctx, 0, 1, 2) }()
	err := pstest.Parallel(3, func(rank int) error {
		err := c.run(ctx, uint32(rank))
		if rank != 1 || !errors.Is(err, fault.Drained) {
			return err
		}
		c.coordinator.mu.Lock()
		delete(c.coordinator.left, 1)
		c.coordinator.mu.Unlock()
		return c.coordinator.giveUp(ctx, 1)
	})
	if err := errors.Join(err, <-began); err != nil {
		t.Fatal(err)
	}
	l.checkLedger(t, c, 0)
	l.checkReports(t, c, true)
}

// A task counts as trained when the pushes of all its records are in the ledger: not when its steps have ended.
func TestTasksAreFinishedWhenPushed(t *testing.T) {
	const records = 40
	j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records), queue.Policy{Passes: 1, Trainers: 1})
	s := j.alone(t).(*asyncSource)
	defer s.Close()
	steps, settled := 0, 0
	s.ledger = ledger{settle: func() error { settled++; return nil }, open: func() bool { return steps%3 != 0 },
		rest: func(context.Context) error { return nil }}
	var done []int
	for range records / 5 {
		if _, err := s.Next(bounded(t)); err != nil {
			t.Fatal(err)
		}
		steps++
		done = append(done, int(s.progress.trained))
	}
	// Steps 3 and 6 push. The push of step 3 is in the ledger when that of step 6 has been sent.
	if want := []int{0, 0, 0, 0, 0, 0, 15, 15}; !slices.Equal(done, want) || settled > 0 {
		t.Errorf("records that count as trained after each step: %v, want %v; settled %d times", done, want, settled)
	}
	if err := s.HandIn(bounded(t)); err != nil || settled != 1 || s.progress.trained != records {
		t.Errorf("at the end: %v, %d records, settled %d times", err, s.progress.trained, settled)
	}
}
