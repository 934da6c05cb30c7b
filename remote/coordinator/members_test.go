package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/wire"
)

// Trainers that join go on together, and the job ends in good order when all have left.
func TestJoinAndLeave(t *testing.T) {
	s := start(t, config(3))
	for rank, r := range s.joinAll(0, 0, 1, 2) {
		if r.Trainers != 3 || r.Generation != 1 || int(r.Position) != rank || r.Fence != s.lead.Fence || r.Round != 0 || r.DataEnded {
			t.Errorf("trainer %d joined %v", rank, r)
		}
	}
	for _, rank := range []uint32{2, 2, 0, 1} { // a repeated Leave does no harm
		if err := s.leave(t.Context(), rank); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-s.ended; err != nil {
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
	errs["ReportStep"] = s.report(ctx, &rpc.TrainerStep{Id: who})
	return errs
}

func TestStrangersAreRefused(t *testing.T) {
	s := start(t, config(2))
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 30)
	stranger, program := idOf(1, 0, 0), idOf(1, 0, 0)
	stranger.Job, program.ProgramHash = "other", []byte{9}
	for what, who := range map[string]*rpc.Identity{"job": stranger, "program": program, "rank": id(2, 0), "nobody": nil} {
		for call, err := range s.calls(who) {
			if !errors.Is(err, fault.Foreign) {
				t.Errorf("%s of another %s: %v", call, what, err)
			}
		}
	}
	if _, err := s.client.CloseFeed(t.Context(), &rpc.CloseFeedRequest{Id: stranger}); !errors.Is(err, fault.Foreign) {
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

// Trainers that never come are named when the start deadline has passed, to those who wait, too.
func TestStartDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.StartDeadline = time.Minute
		h := newHome(t, cfg)
		s := coordinator.New(h.cfg)
		told := make(chan error, 1)
		go func() {
			_, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 1, 0)})
			told <- err
		}()
		began := time.Now()
		err := s.Run(t.Context(), h.store.lead())
		if time.Since(began) != time.Minute || !errors.Is(err, fault.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "trainer 0, trainer 2 within 1m0s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if got := <-told; got != err {
			t.Errorf("a trainer that waited was told %v", got)
		}
	})
}

// waiters are the calls of an interactive job that wait for others, by name.
func (s running) waiters(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"task": func() error {
			for {
				r, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: id(0, 1), Dataset: "d", Pass: 1, Wait: true}) // pass 0 has not ended
				if err != nil || r.Task != nil {
					return err
				}
			}
		},
		"save": func() error {
			_, err := s.client.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: id(0, 0)})
			return err
		},
		"share": func() error { _, err := s.nextFeed(ctx, 1, 0); return err }, // the first goes to trainer 0
		"feed":  func() error { _, err := s.feed(ctx, &rpc.StepRun{Feed: []*job.Value{batch(3)}}); return err },
	}
}

// A trainer of an interactive job that is lost, leaves with a failure, or a job that is ended from outside: everyone who waits is told the reason,
// with its kind, and so are those who watch.
func TestFailureReachesEveryone(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(running) error
		kind fault.Kind
		text string
	}{
		"lost":   {func(s running) error { s.lose(1); return nil }, fault.LostMember, "trainer 1 in step 0 of pass 0"},
		"server": {func(s running) error { return s.Lost(t.Context(), cluster.Member{Role: job.Role_PSERVER, Index: 1}) }, fault.LostMember, "pserver 1"},
		"left with a failure": {func(s running) error {
			_, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: id(1, 0),
				Failure: wire.FailureOf(&fault.Fault{Kind: fault.NotFinite, Op: "mean", Variable: "loss"})})
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
			cfg.Interactive, cfg.Sync, cfg.Passes = true, false, 2
			s := start(t, cfg)
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 10)
			if _, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(1, 0), Dataset: "d"}); err != nil {
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
	cfg.TrainersMax = 2
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
	if _, err := start(t, config(2)).Join(ctx, &rpc.JoinRequest{Id: id(0, 0)}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

// One trainer is chosen to save, told so when the others have left, and again when it asks again. The next coordinator knows.
func TestRequestSaveModel(t *testing.T) {
	h := newHome(t, config(3))
	s := h.start()
	s.joinAll(0, 0, 1, 2)
	granted := make(chan error, 1)
	save := func(s running, generation uint64, rank uint32) (bool, error) {
		r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: idOf(generation, rank, 0)})
		return r.GetGranted(), err
	}
	go func() {
		_, err := save(s, 1, 2)
		granted <- err
	}()
	s.status(func(q *rpc.QueuesResponse) bool {
		return len(q.Waits) == 1 && q.Waits[0].Who == "trainer 2" && len(q.Waits[0].By) == 2
	})
	if ok, err := save(s, 1, 0); err != nil || ok {
		t.Error(ok, err)
	}
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := <-granted; err == nil {
		t.Error("granted while trainer 1 was there")
	}
	<-s.ended

	s = h.start()
	s.joinAll(1, 1, 2)
	if ok, err := save(s, 2, 1); err != nil || ok {
		t.Error(ok, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, 1, 0)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ok, err := save(s, 2, 2); err != nil || !ok {
			t.Error(ok, err)
		}
	}
}
