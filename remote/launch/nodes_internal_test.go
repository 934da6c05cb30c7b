package launch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
)

// A role that has ended before await was called was started: Wait reports its end, and no other node is asked.
func TestRoleThatEndsAtOnceWasStarted(t *testing.T) {
	past := make(chan struct{})
	close(past)
	for range 100 {
		h := &remoteRole{limits: jobspec.DeadlinesOf(nil), cancel: func() {}, started: past, done: past, err: fault.New(fault.Unavailable, "lost")}
		if err := h.await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// stuck is a stream to a node that takes no bytes.
type stuck struct {
	grpc.BidiStreamingClient[rpc.StartRoleChunk, rpc.RoleEvent]
	ctx context.Context
}

func (s stuck) Send(*rpc.StartRoleChunk) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

func (s stuck) CloseSend() error { return nil }

// Stop and Kill end for a node that takes no bytes, as for a node that does not answer.
func TestEndOfARoleOnAStuckNode(t *testing.T) {
	for name, end := range map[string]func(*remoteRole){"kill": (*remoteRole).Kill, "stop": func(h *remoteRole) { h.Stop(h.limits.LauncherStop) }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				h := &remoteRole{limits: jobspec.DeadlinesOf(nil), cancel: cancel, stream: stuck{ctx: ctx}, started: make(chan struct{}),
					done: make(chan struct{})}
				go func() { <-ctx.Done(); close(h.done) }()
				end(h)
			})
		})
	}
}

// Stop may break the stream before it could ask the node, because another call holds the stream: the role then counts as stopped, not as lost.
func TestStopWhileTheStreamIsHeld(t *testing.T) {
	h := &remoteRole{where: "trainer 0 on node a", started: make(chan struct{}), done: make(chan struct{})}
	close(h.started)
	h.cancel = func() {
		h.err = h.outcome(nil, context.Canceled)
		close(h.done)
	}
	h.mu.Lock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.Stop(0)
	}()
	if err := h.Wait(); !errors.Is(err, fault.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	h.mu.Unlock()
	<-stopped
}
