package trainer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	machine "github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// fedItem is what a fakeCoordinator is to have done: a batch to train, or variables to read.
type fedItem struct {
	step  uint64
	feed  executor.Feed // nil: nothing is trained
	rows  int64
	fetch []string
}

// feedBatches makes the fakeCoordinator feed batches of so many rows, and then nothing more. It returns what is fed.
func (c *fakeCoordinator) feedBatches(t testing.TB, fetch []string, rows ...int64) (feeds []executor.Feed) {
	t.Helper()
	for i, n := range rows {
		feed := executor.Feed{"x": vector(t, uint64(2*i), n, testkit.Width), "y": vector(t, uint64(2*i+1), n, 1)}
		c.feeds = append(c.feeds, &fedItem{step: uint64(c.policy.Start.Round) + uint64(i), feed: feed, rows: n, fetch: fetch})
		feeds = append(feeds, feed)
	}
	c.noMore = true
	return feeds
}

func vector(t testing.TB, seed uint64, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	chance := seeded(seed)
	for i := range v.Float32s() {
		v.Float32s()[i] = chance.Float32() - 0.5
	}
	return v
}

// fedItems are what a fakeCoordinator gives to a fed job.
type fedItems struct {
	feeds     []*fedItem
	firstItem int  // that the current generation is given
	noMore    bool // feeds are all that there are
}

// handOutAgain finds the first item that a generation is to do, which begins at a round: reads are not repeated. The lock is held.
func (c *fedItems) handOutAgain(round id.Round) {
	c.firstItem = slices.IndexFunc(c.feeds, func(item *fedItem) bool { return item.feed != nil && item.step >= uint64(round) })
	if c.firstItem < 0 {
		c.firstItem = len(c.feeds)
	}
}

func (c *fakeCoordinator) NextFeed(m *rpc.NextFeedRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	var share *rpc.FeedShare
	err := c.await(stream.Context(), func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		switch at := c.firstItem + int(m.Item); {
		case at < len(c.feeds):
			item := c.feeds[at]
			if item.feed != nil && c.policy.Sync && m.Id.Round != item.step {
				return false, fault.E(fault.InvalidArgument, fault.Gotf("round %d", m.Id.Round), fault.Wantf("round %d for item %d", item.step, at))
			}
			share = item.share(c.current, id.Rank(m.Id.Rank))
			return true, nil
		case c.noMore:
			share = &rpc.FeedShare{End: true}
			return true, nil
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	return wire.Send(stream, share)
}

// share is the part of an item that a member of a generation does.
func (item *fedItem) share(g machine.Generation, rank id.Rank) *rpc.FeedShare {
	share := &rpc.FeedShare{Step: item.step, Fetch: item.fetch}
	position, members := int64(g.Position(rank)), int64(len(g.Members))
	from, to := item.rows*position/members, item.rows*(position+1)/members
	for _, name := range []string{"x", "y"} {
		if item.feed == nil {
			continue
		}
		rows, err := item.feed[name].Rows(from, to)
		if err != nil {
			panic(err)
		}
		share.Feed = append(share.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, rows)})
		share.RowOffset, share.Rows, share.GlobalRows = from, to-from, item.rows
	}
	return share
}

// fedJob is a testJob of 3 trainers and 2 pservers that is fed.
func fedJob(t *testing.T, mode job.Mode, trainers int32) (*testJob, testkit.Model) {
	t.Helper()
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	spec := &job.JobSpec{Trainers: trainers, Pservers: 2, Mode: mode, Fed: true, Save: t.TempDir()}
	return newTestJob(t, m, nil, spec, queue.Policy{Passes: 1}), m
}

// The law of fed jobs: wherever trainers are superseded, and whether they live through it or are killed and started again, a fed sync job computes
// what the reference does with as many trainers in each round, and every row of every step is reported once.
func TestLawOfFedGenerations(t *testing.T) {
	sizes := []int64{5, 4, 1, 7, 2, 6, 5, 5, 3, 8, 1, 5, 4, 6}
	run := func(t *testing.T, seed uint64, at map[int]bool, kills float64, vary bool) (calls int) {
		c, m := fedJob(t, job.Mode_SYNC, 3)
		feeds := c.coordinator.feedBatches(t, []string{m.Loss, parameterOf(m)}, sizes...)
		x := &trouble{job: c, ctx: bounded(t), kills: kills, vary: vary, chance: seeded(seed), at: at, until: uint64(len(sizes) - 3)}
		c.call = x.call
		err := c.train(x.ctx, 3)
		x.group.Wait()
		if err = errors.Join(withoutCanceled(err), x.err); err != nil {
			t.Fatalf("%v\nafter %q", err, x.happened)
		}
		oracle, err := reference.New(m.Program, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer oracle.Close()
		oracle.Vary(c.coordinator.members)
		for _, feed := range feeds {
			if _, err := oracle.Run(t.Context(), m.Program, feed); err != nil {
				t.Fatal(err)
			}
		}
		if err := testkit.Difference(testkit.Saved(t, c.spec.Save, m.Program), testkit.Persistables(oracle.Scope(), m.Program)); err != nil {
			t.Errorf("%v\nafter %q", err, x.happened)
		}
		rows := make([]int64, len(sizes))
		for _, r := range c.coordinator.committed() {
			rows[r.Id.Round] += r.Rows
			if i := slices.IndexFunc(r.Fetched, func(v *job.Value) bool { return v.Name != m.Loss }); r.Pending && i >= 0 {
				t.Errorf("step %d, of which it is not known whether it has committed, is reported with %s", r.Id.Round, r.Fetched[i].Name)
			}
		}
		for step, n := range rows {
			if n > sizes[step] || n < sizes[step] && kills == 0 { // a trainer that is killed reports nothing any more
				t.Errorf("%d of %d rows of step %d were reported\nafter %q", n, sizes[step], step, x.happened)
			}
		}
		if late := c.coordinator.late; len(late) > 0 {
			t.Errorf("%d reports came too late, such as %v", len(late), late[0].Id)
		}
		if len(x.happened) == 0 && len(at) > 0 {
			t.Error("nothing happened")
		}
		return x.calls
	}
	calls := run(t, 0, nil, 0, false)
	for seed := range uint64(lawSeeds / 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := seeded(2000 + seed)
			at := map[int]bool{}
			for range 5 {
				at[1+chance.IntN(calls*7/10)] = true
			}
			run(t, seed, at, []float64{0, 0.5}[seed%2], seed%3 > 0)
		})
	}
}

// A trainer repeats the report of its last fed step to a coordinator that took the place of the one that had it, until it is given the next batch. What is read
// between them may be a part of the answer that the coordinator has not given.
func TestLastFedStepIsReportedToTheNextCoordinator(t *testing.T) {
	c, m := fedJob(t, job.Mode_SYNC, 1)
	ctx, fake := bounded(t), c.coordinator
	fake.feedBatches(t, []string{m.Loss}, 4, 4)
	fake.noMore = false
	began, ended := make(chan error, 1), make(chan error, 1)
	fake.countsAgain = true
	go func() { began <- fake.regroup(ctx, 0) }()
	go func() { ended <- c.run(ctx, 0) }()
	reported := func(want ...uint64) {
		t.Helper()
		var steps []uint64
		err := fake.await(ctx, func() (bool, error) {
			steps = nil
			for _, r := range fake.reports {
				steps = append(steps, r.Id.Round)
			}
			return len(steps) >= len(want), nil
		})
		if err != nil || !slices.Equal(steps, want) {
			t.Fatalf("steps %d were reported, want %d, %v", steps, want, err)
		}
	}
	again := func(fence uint64) {
		t.Helper()
		fake.change(func() { fake.fence = fence })
		if err := fake.regroup(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	reported(0, 1)
	again(fake.fence) // the coordinator that has the report
	again(fake.fence + 1)
	reported(0, 1, 1)
	if first, second := fake.reports[1], fake.reports[2]; first.Id.Generation != second.Id.Generation || !slices.Equal(first.Fetched[0].Stream, second.Fetched[0].Stream) {
		t.Errorf("%v is reported again as %v", first, second)
	}
	again(fake.fence) // it has it now
	fake.change(func() { fake.feeds = append(fake.feeds, &fedItem{step: 2, fetch: []string{parameterOf(m)}}) })
	reported(0, 1, 1, 2)
	again(fake.fence + 1)
	reported(0, 1, 1, 2, 1)
	fake.change(func() { fake.noMore = true })
	if err := <-ended; err != nil {
		t.Error(err)
	}
	reported(0, 1, 1, 2, 1)
	if read := fake.reports[3]; read.GlobalRows != 0 || len(read.Fetched) != 1 || read.Fetched[0].Name != parameterOf(m) {
		t.Errorf("%s was read as %v", parameterOf(m), read)
	}
}

// A fed trainer that is drained takes its leave between two items, also while it waits for the user, and the others go on.
func TestDrainOfFedTrainer(t *testing.T) {
	c, m := fedJob(t, job.Mode_SYNC, 2)
	ctx, fake := bounded(t), c.coordinator
	feeds := fake.feedBatches(t, []string{m.Loss}, 4, 4, 4)
	last := fake.feeds[2]
	fake.feeds, fake.noMore = fake.feeds[:2], false
	began, ended := make(chan error, 1), make(chan error, 2)
	go func() { began <- fake.regroup(ctx, 0, 1) }()
	for rank := range uint32(2) {
		go func() { ended <- c.run(ctx, rank) }()
	}
	if err := errors.Join(<-began, fake.await(ctx, func() (bool, error) { return len(fake.reports) == 4, nil })); err != nil {
		t.Fatal(err)
	}
	c.drainTrainer(1)
	if err := <-ended; !errors.Is(err, fault.Drained) || !fake.left[1].GetDrained() {
		t.Fatalf("drained with %v, leaves with %v", err, fake.left[1])
	}
	fake.change(func() {
		delete(fake.left, 1)
		fake.feeds, fake.noMore = append(fake.feeds, last), true
	})
	if err := errors.Join(fake.regroup(ctx, 0), <-ended); err != nil {
		t.Fatal(err)
	}
	oracle, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	oracle.Vary(func(round uint64) int { return []int{2, 2, 1}[round] })
	for _, feed := range feeds {
		if _, err := oracle.Run(t.Context(), m.Program, feed); err != nil {
			t.Fatal(err)
		}
	}
	if err := testkit.Difference(testkit.Saved(t, c.spec.Save, m.Program), testkit.Persistables(oracle.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// In async mode a fed step has the number that the user counts, which is what one machine computes with.
func TestFedAsyncSteps(t *testing.T) {
	fake := newFakeCoordinator(queue.Policy{Start: queue.Position{Round: 40}})
	fake.feedBatches(t, nil, 3, 3)
	fake.feeds[1].step = 47 // others have the steps between
	fake.current.Members = nil
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, asyncFeeds{fake})
	trainer := &Trainer{cfg: Config{Rank: 2, Spec: &job.JobSpec{Fed: true}, Begin: &job.Progress{Steps: 40}, Coordinator: rpc.NewCoordinatorClient(pstest.Serve(t, service))}}
	s := newFedSource(&generationRun{Trainer: trainer, in: &generation{JoinResponse: &rpc.JoinResponse{}, identity: pstest.Identity, rank: 2}})
	for _, want := range []uint64{40, 47} {
		b, err := s.Next(bounded(t))
		if err != nil || b.Step.Round != want || b.Step.Lane != 2 || uint64(s.Number()) != want {
			t.Fatalf("%+v, %v, want step %d", b, err, want)
		}
	}
	if _, err := s.Next(bounded(t)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end %v", err)
	}
}

// asyncFeeds gives whole batches.
type asyncFeeds struct{ *fakeCoordinator }

func (c asyncFeeds) NextFeed(m *rpc.NextFeedRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if int(m.Item) == len(c.feeds) {
		return wire.Send(stream, &rpc.FeedShare{End: true})
	}
	item := c.feeds[m.Item]
	share := &rpc.FeedShare{Step: item.step, Rows: item.rows, GlobalRows: item.rows}
	for name, v := range item.feed {
		share.Feed = append(share.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, v)})
	}
	return wire.Send(stream, share)
}
