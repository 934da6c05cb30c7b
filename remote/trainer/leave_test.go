package trainer

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// A trainer that is told to end while it waits for its first generation takes its leave of a coordinator that may have heard of it, for as long as
// whoever told it waits, and of no other.
func TestLeaveBeforeTheFirstGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		heard bool
		cause error
		takes time.Duration
	}{
		"unheard, drained": {false, fault.New(fault.Drained, "terminated"), 0},
		"unheard, ended":   {false, fault.New(fault.LostMember, "killed"), 0},
		"heard, drained":   {true, fault.New(fault.Drained, "terminated"), leaveTime},
		"heard, ended":     {true, fault.New(fault.LostMember, "killed"), leaveTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			drain := make(chan struct{})
			nobody := &mute{heard: c.heard}
			var ended time.Time
			time.AfterFunc(time.Minute, func() {
				ended = time.Now()
				if errors.Is(c.cause, fault.Drained) {
					close(drain)
				} else {
					cancel(c.cause)
				}
			})
			err := Run(ctx, Config{Identity: wire.Identity{Job: rig.Identity.Job}, Coordinator: nobody, Patience: time.Hour, Drain: drain,
				Spec: &job.JobSpec{}})
			if took := time.Since(ended); !errors.Is(err, fault.KindOf(c.cause)) || took != c.takes {
				t.Errorf("%s: ends with %v after %v, want %v", name, err, took, c.takes)
			}
			if want := c.heard && errors.Is(c.cause, fault.Drained); errors.Is(err, ErrUnheard) != want {
				t.Errorf("%s: ends with %v, without an answer: %v", name, err, want)
			}
			if nobody.left != c.heard {
				t.Errorf("%s: takes its leave: %v", name, nobody.left)
			}
			cancel(nil)
		})
	}
}

// mute is a coordinator that never answers; heard says whether requests reach it.
type mute struct {
	rpc.CoordinatorClient
	heard, left bool
}

func (m *mute) Join(ctx context.Context, _ *rpc.JoinRequest, options ...grpc.CallOption) (*rpc.JoinResponse, error) {
	<-ctx.Done()
	for _, o := range options {
		if to, ok := o.(grpc.PeerCallOption); ok && m.heard {
			to.PeerAddr.Addr = &net.TCPAddr{}
		}
	}
	return nil, ctx.Err()
}

func (m *mute) Leave(ctx context.Context, _ *rpc.LeaveRequest, _ ...grpc.CallOption) (*rpc.LeaveResponse, error) {
	m.left = true
	<-ctx.Done()
	return nil, ctx.Err()
}

// A request that waits at the coordinator has been heard.
func TestLeaveOfOneThatWaits(t *testing.T) {
	c := newCrew(t, testkit.Reading(t, 5, optimizer.SGD(0.05)), testkit.Samples(t, t.TempDir(), 10), &job.JobSpec{Trainers: 1, Pservers: 1},
		queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	ctx := bounded(t)
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx, 0) }()
	if err := c.conductor.await(ctx, func() (bool, error) { return c.conductor.waiting[0] != nil, nil }); err != nil {
		t.Fatal(err)
	}
	c.drainTrainer(0)
	if err := <-ended; !errors.Is(err, fault.Drained) {
		t.Errorf("ends with %v", err)
	}
	if said := c.conductor.left[0]; !said.GetDrained() {
		t.Errorf("takes its leave with %v", said)
	}
}
