package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// waiters are the calls of an fed job that wait for others, by name.
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

// A trainer of an fed job that is lost, leaves with a failure, or a job that is ended from outside: everyone who waits is told the reason,
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
	h := newHome(t, config(2))
	h.live.set(0, 0)
	if _, err := h.start().Join(ctx, &rpc.JoinRequest{Id: id(0, 0)}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}
