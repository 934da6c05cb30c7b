package coordinator_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

// waiters are the calls of a fed job that wait for others, by name.
func (s running) waiters(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"task": func() error {
			for {
				r, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: firstID(0, 1), Dataset: "d", Pass: 1, Wait: true}) // pass 0 has not ended
				if err != nil || r.Task != nil {
					return err
				}
			}
		},
		"save": func() error {
			_, err := s.client.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: firstID(0, 0)})
			return err
		},
		"share": func() error { _, err := s.nextFeed(ctx, 1, 0); return err }, // the first goes to trainer 0
		"feed":  func() error { _, err := s.feed(ctx, &rpc.StepRun{Feed: []*job.Value{batch(3)}}); return err },
	}
}

// When a trainer leaves with a failure that another start cannot mend, or the job is ended from outside, everyone who waits is told the reason with its
// kind, and so are those who watch.
func TestFailureReachesEveryone(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(running) error
		kind fault.Kind
		text string
	}{
		"left with a failure": {func(s running) error {
			_, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(1, 0),
				Failure: wire.FailureOf(fault.E(fault.NotFinite, fault.Op("mean"), fault.Var("loss")))})
			return err
		}, fault.NotFinite, `trainer 1: op mean, variable "loss"`},
		"failed": {func(s running) error {
			s.Fail(fault.New(fault.Drained, "told to end"))
			s.Fail(fault.New(fault.Internal, "second"))
			return nil
		}, fault.Drained, "told to end"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(2)
			cfg.Fed, cfg.Sync, cfg.Passes = true, false, 2
			s := start(t, cfg)
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 10)
			if _, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: firstID(1, 0), Dataset: "d"}); err != nil {
				t.Fatal(err)
			}
			told := map[string]chan error{}
			for name, call := range s.waiters(t.Context()) {
				answer := make(chan error, 1)
				told[name] = answer
				go func() { answer <- call() }()
			}
			s.status(func(q *rpc.QueuesResponse) bool { return len(q.Waits) == 2 }) // the others wait for the user
			if err := c.fail(s); err != nil {
				t.Fatal(err)
			}
			for call, answer := range told {
				if err := <-answer; fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s is told %v", call, err)
				}
			}
			err := <-s.ended
			if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the coordinator ends with %v", err)
			}
			if _, last, err := s.watch(t.Context()); err != nil || last.GetState() != job.State_FAILED || fault.KindOf(wire.FaultOf(last.Failure)) != c.kind {
				t.Errorf("watchers are told %v, %v", last, err)
			}
			s.lose(0)
		})
	}
}

// Whoever waits when the job ends in good order is told so, and not to try again; a trainer that came too late has nothing to do.
func TestNobodyWaitsAfterTheEnd(t *testing.T) {
	cfg := config(1)
	cfg.TrainersMax, cfg.Fed = 2, true
	s := start(t, cfg)
	s.joinAll(0, 0)
	late := make(chan *rpc.JoinResponse, 1)
	go func() {
		r, err := s.join(1, 101, 0) // one is enough
		if err != nil {
			t.Error(err)
		}
		late <- r
	}()
	if _, err := s.finish(-1); err != nil {
		t.Fatal(err)
	}
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	if r := <-late; !r.GetDataEnded() {
		t.Error(r)
	}
	if _, err := s.nextFeed(t.Context(), 0, 0); !errors.Is(err, fault.Stale) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := newHome(t, config(2))
	h.live.set(0, 0)
	if _, err := h.start().Join(ctx, &rpc.JoinRequest{Id: firstID(0, 0)}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

// calls are the calls of a trainer, by name.
func (s running) calls(who *rpc.Identity) map[string]error {
	ctx := s.home.t.Context()
	errs := map[string]error{}
	errs["ReportDataset"] = wire.ReportDataset(ctx, s.client, &rpc.ReportDatasetRequest{Id: who})
	_, errs["GetTask"] = s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: who, Dataset: "d"})
	_, errs["TaskFailed"] = s.client.TaskFailed(ctx, &rpc.TaskFailedRequest{Id: who, Task: &rpc.Task{Dataset: "d"}})
	_, errs["RequestSaveModel"] = s.client.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: who})
	_, errs["Leave"] = s.client.Leave(ctx, &rpc.LeaveRequest{Id: who})
	errs["ReportSteps"] = s.report(ctx, &rpc.TrainerStep{Id: who})
	return errs
}

func TestStrangersAreRefused(t *testing.T) {
	s := start(t, config(2))
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 30)
	stranger, program := idOf(1, 0, 0), idOf(1, 0, 0)
	stranger.Job, program.ProgramHash = "other", []byte{9}
	for what, who := range map[string]*rpc.Identity{"job": stranger, "program": program, "rank": firstID(2, 0), "nobody": nil} {
		for call, err := range s.calls(who) {
			if !errors.Is(err, fault.Foreign) {
				t.Errorf("%s of another %s: %v", call, what, err)
			}
		}
	}
	if _, err := s.client.Finish(t.Context(), &rpc.FinishDataRequest{Id: stranger}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	if _, err := wire.Queues(t.Context(), s.client, &rpc.QueuesRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	watch, err := s.client.Watch(t.Context(), &rpc.WatchRequest{Job: "other"})
	if err == nil {
		_, err = watch.Recv()
	}
	if !errors.Is(wire.FromStatus("coordinator", err), fault.Foreign) {
		t.Error(err)
	}
	_, err = s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(0, 0, 0), Dataset: "d"})
	if !errors.Is(err, fault.Superseded) {
		t.Errorf("a task for a generation that has ended: %v", err)
	}
}

// A stranger is refused at the first piece of what it has to say, and not asked for the rest.
func TestStrangersAreNotHeardOut(t *testing.T) {
	cfg := config(1)
	cfg.Fed = true
	s := start(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), pstest.Patience)
	defer cancel()
	type call interface {
		grpc.ClientStream
		Send(*rpc.Piece) error
	}
	for name, begin := range map[string]func() (call, error){
		"ReportDataset": func() (call, error) { return s.client.ReportDataset(ctx) },
		"ReportSteps":   func() (call, error) { return s.client.ReportSteps(ctx) },
		"Feed":          func() (call, error) { return s.client.Feed(ctx) },
	} {
		for what, who := range map[string]*rpc.Identity{
			"job": {Job: "other", ProgramHash: pstest.Identity.Program}, "program": {Job: pstest.Identity.Job, ProgramHash: []byte{9}}, "nobody": nil,
		} {
			stream, err := begin()
			if err == nil {
				err = stream.Send(&rpc.Piece{Piece: []byte{0x0a}, Id: who})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := wire.FromStatus("coordinator", stream.RecvMsg(&rpc.Piece{})); !errors.Is(err, fault.Foreign) {
				t.Errorf("%s of another %s: %v", name, what, err)
			}
		}
	}
}

// B1 row 12: a coordinator that was paused while another took the lock changes nothing when it goes on, and ends.
func TestCoordinatorThatHasLostItsLock(t *testing.T) {
	h := newHome(t, async(1))
	old := h.start()
	old.joinAll(0, 0)
	old.reportDataset(t, 100)
	task := old.mustAsk(1, 0, 0)
	now := h.start()
	next := func() *rpc.Task {
		now.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "running" })
		return now.mustAsk(1, 0, 1, task)
	}()
	if _, err := old.ask(1, 0, 2, next); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the old one says %v", err)
	}
	if err := <-old.ended; !errors.Is(err, fault.Fenced) {
		t.Error(err)
	}
	if third := now.mustAsk(1, 0, 2, next); third.Id != 2 {
		t.Error(third)
	}
	// A trainer that names a later one, while there is none, is refused, and the job goes on.
	heard := idOf(1, 0, 3)
	heard.Fence = math.MaxInt64
	if _, err := now.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: heard, Dataset: "d"}); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if fourth := now.mustAsk(1, 0, 3); fourth.Id != 3 {
		t.Error(fourth)
	}
	// One that hears of a later one from a trainer, and has lost the lock, ends.
	last := h.start()
	heard.Fence = uint64(last.lead.Fence)
	if _, err := now.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: heard, Dataset: "d"}); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if err := <-now.ended; !errors.Is(err, fault.Fenced) {
		t.Error(err)
	}
}

// Coordinators crash again and again while trainers train in async mode; every record is trained once.
func TestCrashesInTheMiddle(t *testing.T) {
	const records = 600
	h := newHome(t, async(3))
	var mu sync.Mutex
	s := h.start()
	current := func() running { mu.Lock(); defer mu.Unlock(); return s }
	ready := make(chan bool)
	go func() { s.joinAll(0, 0, 1, 2); s.reportDataset(t, records); close(ready) }()
	<-ready
	trained := make([]int, records)
	var steps int
	err := pstest.Parallel(4, func(i int) error {
		if i == 3 {
			for crash := range 5 {
				for { // until there was progress
					mu.Lock()
					enough := steps > 8*(crash+1)
					mu.Unlock()
					if enough {
						break
					}
				}
				mu.Lock()
				s.stop()
				<-s.ended
				s = h.start()
				mu.Unlock()
			}
			return nil
		}
		var finished []*rpc.Task
		for number := uint64(0); ; {
			r, err := current().ask(1, uint32(i), number, finished...)
			switch {
			case errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Canceled):
				continue
			case err != nil:
				return err
			case r.EndOfData:
				return nil
			}
			number++
			finished = nil
			if r.Task == nil {
				continue
			}
			mu.Lock()
			for _, part := range r.Task.Records {
				for record := part.From; record < part.To; record++ {
					trained[record]++
				}
			}
			steps++
			mu.Unlock()
			finished = []*rpc.Task{r.Task}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(trained, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("record %d was trained %d times", i, trained[i])
	}
	for rank := range uint32(3) {
		if err := s.leave(t.Context(), rank); err != nil {
			t.Error(err)
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
