package listen_test

import (
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// asked is a coordinator that passes on what it is asked to end with.
type asked struct {
	telling
	finish chan<- *rpc.FinishDataRequest
}

func (c asked) Finish(_ context.Context, m *rpc.FinishDataRequest) (*rpc.FinishDataResponse, error) {
	c.finish <- m
	return &rpc.FinishDataResponse{Steps: c.steps}, nil
}

// A job that starts over ends as its user wished in an earlier attempt, although nobody asks again.
func TestFinishOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]*uint64{"after a step": new(uint64(2)), "as soon as it can": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *harness
			var finish [2]chan *rpc.FinishDataRequest
			for i := range finish {
				finish[i] = make(chan *rpc.FinishDataRequest, 1)
			}
			killed, done := make(chan struct{}), make(chan struct{})
			h = newHarness(t, listen.Config{}, func(name string) run {
				return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
					if name == "coordinator" {
						ctx, cancel := context.WithCancel(ctx)
						defer cancel()
						go func() {
							select {
							case <-done:
							case <-ctx.Done():
							}
							cancel()
						}()
						steps := telling{fence: uint64(spec.Start) + 1, steps: 3, told: func() {}}
						return serveCoordinator(ctx, h.store, spec, asked{steps, finish[spec.Start]})
					}
					lost := killed
					if name != "pserver-1" || spec.Start > 0 {
						lost = nil
					}
					select {
					case <-lost:
						return fault.New(fault.LostMember, "killed")
					case <-done:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			})
			j := h.begin(t, reading(t))
			eventually(t, func() bool { return j.Status().Steps == 3 })
			ctx, leave := context.WithCancel(bounded(t))
			told := make(chan error, 1)
			go func() { told <- j.Finish(ctx, after, true) }()
			if m := <-finish[0]; !m.WithoutSave || (m.AfterStep == nil) != (after == nil) || m.GetAfterStep() != 2 && after != nil {
				t.Errorf("the first coordinator is asked %v", m)
			}
			leave()
			if err := <-told; !errors.Is(err, fault.Canceled) {
				t.Errorf("a user who has left is told %v", err)
			}
			close(killed)
			select {
			case m := <-finish[1]:
				if !m.WithoutSave || m.AfterStep == nil || *m.AfterStep != 2 {
					t.Errorf("the next coordinator is asked %v", m)
				}
			case <-bounded(t).Done():
				t.Error("the next coordinator is not asked")
			}
			close(done)
			if err := j.Wait(bounded(t)); err != nil || j.Status().Attempt != 1 {
				t.Errorf("%v in attempt %d", err, j.Status().Attempt)
			}
		})
	}
}

// What a coordinator refuses is told to the user, and does not end the job.
func TestFinishIsRefused(t *testing.T) {
	t.Parallel()
	var h *harness
	h = newHarness(t, listen.Config{}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			if name != "coordinator" {
				return idle(ctx, spec, log)
			}
			return serveCoordinator(ctx, h.store, spec, refusesFinish{})
		}
	})
	j := h.begin(t, reading(t))
	for range 2 {
		if err := j.Finish(bounded(t), nil, false); !errors.Is(err, fault.InvalidArgument) {
			t.Error(err)
		}
	}
	if j.Ended() {
		t.Error("the job has ended")
	}
}

type refusesFinish struct{ telling }

func (refusesFinish) Watch(*rpc.WatchRequest, grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	return fault.New(fault.Unsupported, "a question of another test")
}

func (refusesFinish) Finish(context.Context, *rpc.FinishDataRequest) (*rpc.FinishDataResponse, error) {
	return nil, fault.New(fault.InvalidArgument, "no")
}

// A word of steps that were never told, or of an attempt that has not begun, is refused. A word that comes late is not.
func TestAcknowledgementsThatCannotBe(t *testing.T) {
	t.Parallel()
	var h *harness
	h = newHarness(t, listen.Config{}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			if name != "coordinator" {
				return idle(ctx, spec, log)
			}
			return serveCoordinator(ctx, h.store, spec, telling{fence: 1, steps: 3, told: func() {}})
		}
	})
	client := serve(t, h.Manager)
	j := h.begin(t, reading(t))
	eventually(t, func() bool { return j.Status().Steps == 3 })
	for _, c := range []struct {
		attempt int32
		steps   uint64
		refused bool
	}{{0, 3, false}, {0, 1, false}, {0, 4, true}, {0, math.MaxUint64, true}, {1, 0, true}, {math.MaxInt32, 1, true}, {-1, 1, true}} {
		_, err := client.Acknowledge(bounded(t), &rpc.AcknowledgeRequest{Job: j.ID, Attempt: c.attempt, Steps: c.steps})
		if err = wire.FromStatus("", err); errors.Is(err, fault.InvalidArgument) != c.refused || err != nil && !c.refused {
			t.Errorf("steps below %d of attempt %d: %v", c.steps, c.attempt, err)
		}
	}
}
