package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/pserver"
)

// timed runs f against a server whose deadlines are minutes of a clock that stands still while anyone works. f calls the server without a transport;
// its barriers declare no rows, so that no tensor is needed.
func timed(t *testing.T, f func(t *testing.T, s timedServer)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rig.Config(2)
		cfg.StartDeadline, cfg.RoundDeadline = 10*time.Minute, time.Minute
		s := timedServer{Server: pserver.New(cfg), ended: make(chan error, 1), start: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		p := rig.SGD(0, true, 1, 1)
		go func() { s.ended <- s.Serve(ctx, p.Op(), p) }()
		f(t, s)
		cancel()
		synctest.Wait()
	})
}

type timedServer struct {
	*pserver.Server
	ended chan error
	start time.Time
}

// freeze ends generation 7, or that many later.
func (s timedServer) freeze(t *testing.T, later uint64) {
	t.Helper()
	id := rig.Identity.Of(0, 0, 0)
	id.Generation += later
	if _, err := s.Freeze(t.Context(), &rpc.FreezeRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
}

// begin begins generation 7, or that many later, of trainers 0 and 1.
func (s timedServer) begin(t *testing.T, later, round uint64) {
	t.Helper()
	id := rig.Identity.Of(0, 0, 0)
	id.Generation += later
	if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: id, Round: round,
		Members: []*rpc.Member{{Rank: 0, Since: 7}, {Rank: 1, Since: 7}}}); err != nil {
		t.Fatal(err)
	}
}

// waits returns what Status tells, one wait a line.
func (s timedServer) waits(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	status, err := s.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, w := range status.Waits {
		until := "no deadline"
		if w.Until != nil {
			until = "until " + w.Until.AsTime().Sub(s.start).String()
		}
		list = append(list, fmt.Sprintf("%s: %s, by %v since %v, %s; %s", w.Who, w.What, w.By, w.Since.AsTime().Sub(s.start), until, w.LastError))
	}
	return list
}

func (s timedServer) declare(t *testing.T, rank uint32, round uint64) {
	t.Helper()
	if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: rig.Identity.Of(rank, round, 0)}); err != nil {
		t.Fatal(err)
	}
}

// fails waits for the end of the server and checks when it came, and whom it names.
func (s timedServer) fails(t *testing.T, after time.Duration, words ...string) {
	t.Helper()
	var err error
	select {
	case err = <-s.ended:
	case <-time.After(1000 * time.Hour):
		t.Fatalf("it goes on, and waits for %q", s.waits(t))
	}
	if took := time.Since(s.start); took != after || !errors.Is(err, fault.LostMember) {
		t.Errorf("after %v, want %v: %v", took, after, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if _, told := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: rig.Identity.Of(0, 0, 0)}); told != err {
		t.Errorf("a call after the end is told %v", told)
	}
}
