package coordinator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/proto"
)

// trainShares is a trainer that reports of every share who it is and which rows it was given, until the session is closed.
func trainShares(t *testing.T, s running, rank uint32) error {
	for n := uint64(0); ; n++ {
		share, err := s.nextFeed(t.Context(), rank, n)
		if err != nil {
			return err
		}
		if again, err := s.nextFeed(t.Context(), rank, n); err != nil || !proto.Equal(share, again) {
			return fmt.Errorf("share %d is %v, and then %v: %v", n, share, again, err)
		}
		if share.End {
			return nil
		}
		rows, err := rowsOf(share)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("trainer %d of step %d, %d feeds, offset %d: %s;", rank, share.Step, len(share.Feed), share.RowOffset, rows)
		m := &rpc.TrainerStep{Id: firstID(rank, share.Step), Rows: share.Rows, GlobalRows: share.GlobalRows,
			Fetched: []*job.Value{{Name: "y", Stream: []byte(text)}}}
		if share.Rows == 0 && len(share.Feed) > 0 {
			m.Fetched = nil
		}
		for range 2 {
			if err := s.report(t.Context(), m); err != nil {
				return err
			}
		}
	}
}

// session runs f as the user of an fed job.
func session(t *testing.T, trainers int, sync bool, f func(s running) error) {
	t.Helper()
	cfg := config(trainers)
	cfg.Sync, cfg.Fed = sync, true
	s := start(t, cfg)
	err := pstest.Parallel(trainers+1, func(i int) error {
		if i < trainers {
			if _, err := s.join(uint32(i), incarnation(uint32(i)), 0); err != nil {
				return err
			}
			err := trainShares(t, s, uint32(i))
			return errors.Join(err, s.leave(t.Context(), uint32(i)))
		}
		err := f(s)
		_, cerr := s.client.Finish(t.Context(), &rpc.FinishDataRequest{Id: firstID(0, 0)})
		return errors.Join(err, cerr)
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func constant(name string) *job.Value {
	return &job.Value{Name: name, Stream: tensor.AppendStream(nil, pstest.Filled(1, 3))}
}

// A fed batch is split by rows over the trainers, as a round of a dataset is; what is not batched goes to all. The answers are put together in
// rank order, and a step that is asked for again is not trained again.
func TestFeed(t *testing.T) {
	for trainers, want := range map[int]string{
		1: "trainer 0 of step 0, 2 feeds, offset 0: 0 1 2 3 4 ;",
		2: "trainer 0 of step 0, 2 feeds, offset 0: 0 1 ;trainer 1 of step 0, 2 feeds, offset 2: 2 3 4 ;",
		3: "trainer 0 of step 0, 2 feeds, offset 0: 0 ;trainer 1 of step 0, 2 feeds, offset 1: 1 2 ;trainer 2 of step 0, 2 feeds, offset 3: 3 4 ;",
		4: "trainer 0 of step 0, 2 feeds, offset 0: 0 ;trainer 1 of step 0, 2 feeds, offset 1: 1 ;" +
			"trainer 2 of step 0, 2 feeds, offset 2: 2 ;trainer 3 of step 0, 2 feeds, offset 3: 3 4 ;",
	} {
		session(t, trainers, true, func(s running) error {
			run := &rpc.StepRun{Feed: []*job.Value{batch(5), constant("rate")}, Fetch: []string{"y"}}
			for range 3 {
				step, err := s.feed(t.Context(), run)
				if err != nil {
					return err
				}
				if got := string(step.Fetched[0].Stream); got != want || step.Rows != 5 || step.Step != 0 {
					t.Errorf("%d trainers: %d rows of step %d: %s", trainers, step.Rows, step.Step, got)
				}
			}
			return nil
		})
	}
}

// With fewer rows than trainers some train nothing; without a feed one trainer reads; a step of which nothing is batched is trained by one.
func TestFeedOfFewRows(t *testing.T) {
	session(t, 3, true, func(s running) error {
		steps := uint64(0) // that were trained
		for _, c := range []struct {
			feed []*job.Value
			want string
			rows int64
		}{
			{[]*job.Value{batch(2)}, "trainer 1 of step 0, 1 feeds, offset 0: 0 ;trainer 2 of step 0, 1 feeds, offset 1: 1 ;", 2},
			{nil, "trainer 0 of step 1, 0 feeds, offset 0: ;", 0},
			{[]*job.Value{constant("rate")}, "trainer 0 of step 1, 1 feeds, offset 0: ;", 1},
			{nil, "trainer 0 of step 2, 0 feeds, offset 0: ;", 0},
			{[]*job.Value{batch(1)}, "trainer 2 of step 2, 1 feeds, offset 0: 0 ;", 1},
		} {
			step, err := s.feed(t.Context(), &rpc.StepRun{Step: steps, Feed: c.feed, Fetch: []string{"y"}})
			if err != nil {
				return err
			}
			if len(c.feed) > 0 {
				steps++
			}
			if got := string(step.Fetched[0].Stream); got != c.want || step.Rows != c.rows {
				t.Errorf("after %d steps: %d rows: %s", steps, step.Rows, got)
			}
		}
		return nil
	})
}

// In async mode trainers take whole batches in turn.
func TestFeedAsync(t *testing.T) {
	session(t, 2, false, func(s running) error {
		for i := range uint64(4) {
			step, err := s.feed(t.Context(), &rpc.StepRun{Step: i, Feed: []*job.Value{batch(2)}})
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("trainer %d of step %d, 1 feeds, offset 0: 0 1 ;", i%2, i); string(step.Fetched[0].Stream) != want {
				t.Errorf("step %d: %s", i, step.Fetched[0].Stream)
			}
		}
		return nil
	})
}

// Nobody divides the batch of an async trainer, so its feeds may have different numbers of rows, as the places of masked words of a batch do.
func TestFeedAsyncOfDifferentRows(t *testing.T) {
	session(t, 2, false, func(s running) error {
		step, err := s.feed(t.Context(), &rpc.StepRun{Feed: []*job.Value{batch(2), {Name: "label", Stream: batch(3).Stream}}})
		if err != nil {
			return err
		}
		if got, want := string(step.Fetched[0].Stream), "trainer 0 of step 0, 2 feeds, offset 0: 0 1 ;"; got != want || step.Rows != 3 {
			t.Errorf("%d rows: %s", step.Rows, got)
		}
		return nil
	})
}

func TestFeedRefuses(t *testing.T) {
	session(t, 1, true, func(s running) error {
		for i := range uint64(3) {
			if _, err := s.feed(t.Context(), &rpc.StepRun{Step: i, Feed: []*job.Value{batch(2)}}); err != nil {
				return err
			}
		}
		if _, err := s.feed(t.Context(), &rpc.StepRun{Step: 2, Feed: []*job.Value{batch(2)}}); err != nil {
			t.Errorf("the last step again: %v", err)
		}
		for name, c := range map[string]struct {
			run  *rpc.StepRun
			kind fault.Kind
		}{
			"a step to come":      {&rpc.StepRun{Step: 4, Feed: []*job.Value{batch(2)}}, fault.InvalidArgument},
			"a step long past":    {&rpc.StepRun{Step: 0, Feed: []*job.Value{batch(2)}}, fault.Stale},
			"an unknown variable": {&rpc.StepRun{Step: 3, Feed: []*job.Value{constant("z")}}, fault.NotFound},
			"half a tensor":       {&rpc.StepRun{Step: 3, Feed: []*job.Value{{Name: "x", Stream: []byte{1}}}}, fault.Corrupt},
			"bytes behind":        {&rpc.StepRun{Step: 3, Feed: []*job.Value{{Name: "x", Stream: append(batch(1).Stream, 0)}}}, fault.Corrupt},
			"a variable twice":    {&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2), batch(2)}}, fault.InvalidArgument},
			"other rows":          {&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2), {Name: "label", Stream: batch(3).Stream}}}, fault.ShapeMismatch},
		} {
			if _, err := s.feed(t.Context(), c.run); fault.KindOf(err) != c.kind {
				t.Errorf("%s: got %v, want %v", name, err, c.kind)
			}
		}
		for n, kind := range map[uint64]fault.Kind{9: fault.InvalidArgument, 0: fault.Stale} {
			if _, err := s.nextFeed(t.Context(), 0, n); !errors.Is(err, kind) {
				t.Errorf("share %d: got %v, want %v", n, err, kind)
			}
		}
		if _, err := s.client.Finish(t.Context(), &rpc.FinishDataRequest{Id: firstID(0, 0)}); err != nil {
			return err
		}
		if _, err := s.feed(t.Context(), &rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2)}}); !errors.Is(err, fault.InvalidArgument) &&
			!errors.Is(err, fault.Stale) {
			t.Errorf("a feed after the end: %v", err)
		}
		return nil
	})
}

// A call is never answered with the step of another one. A call that is given up is trained if it was accepted, and refused if it comes later.
func TestFeedOfAnotherCall(t *testing.T) {
	session(t, 2, true, func(s running) error {
		run := func(number, call uint64, rows int64) *rpc.StepRun {
			return &rpc.StepRun{Step: number, Call: call, Feed: []*job.Value{batch(rows)}}
		}
		steps := func(number, call, want uint64) {
			t.Helper()
			if got, err := s.giveUpStep(t.Context(), number, call); err != nil || got != want {
				t.Errorf("step %d of call %d is given up: %d steps, %v, want %d", number, call, got, err, want)
			}
		}
		for range 2 {
			if _, err := s.feed(t.Context(), run(0, 7, 2)); err != nil {
				return err
			}
		}
		if _, err := s.feed(t.Context(), run(0, 8, 3)); !errors.Is(err, fault.Stale) {
			t.Errorf("the step of another call is answered with %v", err)
		}
		steps(0, 8, 1)
		steps(0, 7, 1)
		steps(1, 9, 1)
		if _, err := s.feed(t.Context(), run(1, 9, 3)); !errors.Is(err, fault.Canceled) {
			t.Errorf("a call that was given up is answered with %v", err)
		}
		step, err := s.feed(t.Context(), run(1, 10, 4))
		if err == nil && (step.Step != 1 || step.Rows != 4) {
			t.Errorf("the call after it trains %v", step)
		}
		return err
	})
}

// In async mode the batch of a trainer that is lost goes to another one. The next coordinator goes on where its user and its trainers are.
func TestFeedAsyncComesThrough(t *testing.T) {
	cfg := config(1)
	cfg.Sync, cfg.Fed, cfg.TrainersMax = false, true, 2
	cfg.Begin = &job.Progress{Steps: 40}
	h := newHome(t, cfg)
	h.wanted = 2
	s := h.start()
	s.joinAll(0, 0, 1)
	steps := make(chan error, 1)
	feed := func(s running, number uint64) {
		go func() {
			step, err := s.feed(t.Context(), &rpc.StepRun{Step: number, Feed: []*job.Value{batch(2)}, Fetch: []string{"y"}})
			if err == nil && (step.Step != 40+number || step.Rows != 2 || string(step.Fetched[0].Stream) != "0 1 ") {
				err = fmt.Errorf("step %d is %v", number, step)
			}
			steps <- err
		}()
	}
	share := func(s running, rank uint32, item, want uint64) *rpc.FeedShare {
		t.Helper()
		share, err := s.nextFeed(t.Context(), rank, item)
		if err != nil || share.Step != 40+want || share.Rows != 2 || share.GlobalRows != 2 {
			t.Fatalf("trainer %d is given %v, %v", rank, share, err)
		}
		return share
	}
	report := func(s running, rank uint32, share *rpc.FeedShare) {
		t.Helper()
		rows, err := rowsOf(share)
		if err == nil {
			err = s.report(t.Context(), &rpc.TrainerStep{Id: firstID(rank, share.Step), Rows: share.Rows, GlobalRows: share.GlobalRows,
				Fetched: []*job.Value{{Name: "y", Stream: []byte(rows)}}})
		}
		if err == nil {
			err = <-steps
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	feed(s, 0)
	report(s, 0, share(s, 0, 0, 0))
	feed(s, 1)
	share(s, 1, 0, 1)
	s.lose(1)
	report(s, 0, share(s, 0, 1, 1))

	feed(s, 2)
	lost := share(s, 0, 2, 2)
	s.stop()
	<-s.ended
	if err := <-steps; !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	s = h.start()
	feed(s, 2)
	s.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "running" })
	report(s, 0, lost)
	feed(s, 3)
	report(s, 0, share(s, 0, 3, 3))
}
