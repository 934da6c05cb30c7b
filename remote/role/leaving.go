package role

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// outliving returns a context that ends when ctx does, for the same cause. If that is the request to end in order, it ends only when last has returned; last is
// given it. stop ends both, and returns when last has.
func outliving(ctx context.Context, last func(context.Context)) (alive context.Context, stop func()) {
	alive, end := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-alive.Done():
			return
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, fault.Drained) {
			last(alive)
		}
		end(cause)
	}()
	return alive, func() { end(nil); <-ended }
}

// lastCheckpoint lets the job make a checkpoint before a pserver ends that was told to, so that the job goes on from that. It returns at once where the pserver has
// nothing that would be lost with it, where the job makes no checkpoints, and where no coordinator answers: when a job is stopped, all its servers are told to end.
// ServerDrain bounds the wait.
func lastCheckpoint(ctx context.Context, r *runner, server *served, peers *cluster.Peers) {
	if !pserver.Leaves(server.Server) {
		return
	}
	store := r.spec.Spec.Checkpoints.GetStore()
	if store == "" {
		r.log.Info("told to end; nothing keeps what the job has trained, which makes no checkpoints", "hint", "--checkpoint STORE, or --standby 1")
		return
	}
	r.log.Info("told to end; a checkpoint is made first", "store", store, "limit", r.deadlines.ServerDrain)
	ctx, cancel := context.WithTimeout(ctx, r.deadlines.ServerDrain)
	defer cancel()
	wait := r.waits.Begin(waits.Wait{What: "a checkpoint, after which it ends as it was told", By: []string{"coordinator"}, Limit: r.deadlines.ServerDrain})
	defer wait.End()
	last := &job.CheckpointStatus{}
	coordinator, err := peers.Coordinator()
	if err == nil {
		last, err = coordinator.Checkpoint(ctx, &rpc.CheckpointRequest{Job: r.spec.Job, Who: fmt.Sprintf("pserver %d", r.spec.Index), Ends: true, Placement: server.number}, grpc.WaitForReady(false))
	}
	err = wire.FromStatus("coordinator", err)
	switch fault.KindOf(err) {
	case fault.OK:
		r.log.Info("ends; a checkpoint has what it had", "store", store, "steps", last.Steps)
	case fault.Unavailable, fault.Stale, fault.Superseded:
		r.log.Info("ends; no coordinator makes a checkpoint for it, as where the job has ended", "reason", err.Error())
	default:
		r.log.Warn("ends without a checkpoint; the job goes back to an earlier one", "store", store, "limit", r.deadlines.ServerDrain, "error", err)
	}
}
