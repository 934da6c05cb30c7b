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
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// Trainers that join go on together, and the job ends in good order when all have left.
func TestJoinAndLeave(t *testing.T) {
	s := start(t, config(3))
	if err := rig.Each(3, func(rank int) error {
		r, err := s.client.Join(t.Context(), &rpc.JoinRequest{Id: id(uint32(rank), 0)})
		if err == nil && (r.Trainers != 3 || r.Generation != rig.Identity.Generation) {
			t.Errorf("joined %v", r)
		}
		return err
	}); err != nil {
		t.Fatal(err)
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

func TestStrangersAreRefused(t *testing.T) {
	s := start(t, config(2))
	stranger, older := rig.Identity, rig.Identity
	stranger.Job, older.Generation = "other", 1
	for want, who := range map[fault.Kind]*rpc.Identity{fault.Foreign: stranger.Of(0, 0, 0), fault.Stale: older.Of(0, 0, 0), fault.Kind(0): id(2, 0)} {
		if want == 0 {
			want = fault.Foreign
		}
		_, join := s.client.Join(t.Context(), &rpc.JoinRequest{Id: who})
		_, dataset := s.client.ReportDataset(t.Context(), &rpc.ReportDatasetRequest{Id: who})
		_, task := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: who})
		_, failed := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: who})
		_, save := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: who})
		_, leave := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: who})
		report := s.report(t.Context(), &rpc.TrainerStep{Id: who})
		for call, err := range map[string]error{"Join": join, "ReportDataset": dataset, "GetTask": task, "TaskFailed": failed, "RequestSaveModel": save, "Leave": leave, "ReportStep": report} {
			if !errors.Is(err, want) {
				t.Errorf("%s as %v: got %v, want %v", call, who, err, want)
			}
		}
	}
	if _, err := s.client.CloseFeed(t.Context(), &rpc.CloseFeedRequest{Id: stranger.Of(0, 0, 0)}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	if _, err := s.client.Queues(t.Context(), &rpc.QueuesRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	watch, err := s.client.Watch(t.Context(), &rpc.WatchRequest{Job: "other"})
	if err == nil {
		_, err = watch.Recv()
	}
	if !errors.Is(wire.FromStatus("coordinator", err), fault.Foreign) {
		t.Error(err)
	}
}

// Trainers that never come are named when the start deadline has passed, to those who wait, too.
func TestStartDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.StartDeadline = time.Minute
		s := coordinator.New(cfg)
		told := make(chan error, 1)
		go func() {
			_, err := s.Join(t.Context(), &rpc.JoinRequest{Id: id(1, 0)})
			told <- err
		}()
		began := time.Now()
		err := s.Run(t.Context())
		if time.Since(began) != time.Minute || !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), "trainer 0, trainer 2 within 1m0s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if got := <-told; got != err {
			t.Errorf("a trainer that waited was told %v", got)
		}
	})
}

// waiters are the calls that wait for others, by name.
func (s running) waiters(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"join": func() error { _, err := s.client.Join(ctx, &rpc.JoinRequest{Id: id(0, 0)}); return err },
		"task": func() error {
			_, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d", Pass: 1, Wait: true}) // pass 0 has not ended
			return err
		},
		"save": func() error {
			_, err := s.client.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: id(0, 0)})
			return err
		},
		"share": func() error { _, err := s.nextFeed(ctx, 1, 1); return err }, // the second; the first is there

		"feed": func() error { _, err := s.feed(ctx, &rpc.StepRun{Feed: []*job.Value{batch(3)}}); return err },
	}
}

// inWait starts every call that waits and returns when all of them do.
func inWait(t *testing.T, s running) (told map[string]chan error) {
	told = map[string]chan error{}
	for name, call := range s.waiters(t.Context()) {
		answer := make(chan error, 1)
		told[name] = answer
		go func() { answer <- call() }()
	}
	waiting(t, s, len(told))
	return told
}

// A trainer that is lost, leaves with a failure, or a job that is ended from outside: everyone who waits is told the reason, with its kind, and so
// are those who watch.
func TestFailureReachesEveryone(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(running) error
		kind fault.Kind
		text string
	}{
		"lost": {func(s running) error { s.Lost(1); return nil }, fault.LostMember, "trainer 1 in step 0 of pass 0"},
		"left with a failure": {func(s running) error {
			_, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: id(1, 0), Failure: wire.FailureOf(&fault.Fault{Kind: fault.NotFinite, Op: "mean", Variable: "loss"})})
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
			cfg.Interactive, cfg.Passes = true, 2
			s := start(t, cfg)
			s.reportDataset(t, 10)
			feeding, cut := context.WithCancel(t.Context())
			fed := make(chan error, 1)
			go func() { _, err := s.feed(feeding, &rpc.StepRun{Feed: []*job.Value{batch(3)}}); fed <- err }()
			if _, err := s.nextFeed(t.Context(), 1, 0); err != nil {
				t.Fatal(err)
			}
			cut()
			<-fed
			told := inWait(t, s)
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
			s.Lost(0)
		})
	}
}

// Whoever waits when the job ends in good order is told so, and not to try again.
func TestNobodyWaitsAfterTheEnd(t *testing.T) {
	s := start(t, config(1))
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	if _, err := s.nextFeed(t.Context(), 0, 0); !errors.Is(err, fault.Stale) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := start(t, config(2))
	if _, err := other.Join(ctx, &rpc.JoinRequest{Id: id(0, 0)}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

// One trainer is chosen to save, told so when the others have left, and again when it asks again.
func TestRequestSaveModel(t *testing.T) {
	s := start(t, config(3))
	granted := make(chan error, 1)
	first := make(chan *rpc.SaveModelResponse, 1)
	go func() {
		r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: id(2, 0)})
		first <- r
		granted <- err
	}()
	waiting(t, s, 1)
	for _, rank := range []uint32{0, 1} {
		r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: id(rank, 0)})
		if err != nil || r.Granted {
			t.Errorf("trainer %d: %v, %v", rank, r, err)
		}
		select {
		case r := <-first:
			t.Errorf("told %v with trainers still there", r)
		default:
		}
		if err := s.leave(t.Context(), rank); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := <-first, <-granted; err != nil || !r.Granted {
		t.Error(r, err)
	}
	if r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: id(2, 1)}); err != nil || !r.Granted {
		t.Error(r, err)
	}
}
