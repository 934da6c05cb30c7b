package launch

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// Kept starts roles through a Keeper. A role that the Keeper has started before, for another listener, is the same role: Start returns a handle on it. The log of a
// role is not written to what Start is given; Lines has that of all roles of a run.
type Kept struct {
	Keeper rpc.KeeperClient
	Binary *Binary // from which the roles of the runs start that begin; nil: from that of the Keeper
}

var _ Launcher = Kept{}

// Start starts the role, or finds it.
func (l Kept) Start(ctx context.Context, spec *job.RoleSpec, _ io.Writer) (Handle, error) {
	if size := proto.Size(spec); size > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(size), MaxSpec)
	}
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.Keeper.Start(starting, grpc.WaitForReady(false))
	if err == nil {
		if err = wire.Send(stream, &rpc.KeptStart{Run: spec.CheckpointRun, Spec: spec, Binary: l.Binary.Shared()}); errors.Is(err, io.EOF) {
			err = nil // CloseAndRecv says why
		}
	}
	var known *rpc.KeptRole
	if err == nil {
		known, err = stream.CloseAndRecv()
	}
	if err != nil {
		return nil, wire.FromStatus(nameOf(spec), err)
	}
	// The stream outlives ctx, whose end asks the role to end.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &keptHandle{where: nameOf(spec), keeper: l.Keeper, role: known, limits: jobspec.DeadlinesOf(spec.Spec), cancel: stop, done: make(chan struct{})}
	go h.run(following)
	unwatch := context.AfterFunc(ctx, func() { h.Stop(h.limits.LauncherStop) })
	context.AfterFunc(following, func() { unwatch() })
	return h, nil
}

// Lines calls each with the lines of a run from a number on. With follow it waits for more until ctx ends or the run is released.
func (l Kept) Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	return l.lines(ctx, &rpc.LinesRequest{Run: run, From: from, Follow: follow}, each)
}

func (l Kept) lines(ctx context.Context, m *rpc.LinesRequest, each func(*rpc.LogLine)) error {
	stream, err := l.Keeper.Lines(ctx, m, grpc.WaitForReady(false))
	for err == nil {
		var line *rpc.LogLine
		if line, err = stream.Recv(); err == nil {
			each(line)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return wire.FromStatus("keeper", err)
}

// Release lets the Keeper forget a run. Roles that are left are killed.
func (l Kept) Release(ctx context.Context, run string) error {
	_, err := l.Keeper.Release(ctx, &rpc.ReleaseRequest{Run: run}, grpc.WaitForReady(false))
	return wire.FromStatus("keeper", err)
}

// Only does nothing: a Keeper has no runs but those of its data folder.
func (l Kept) Only(context.Context, []string) error { return nil }

// Clear lets the next role of a run start from the binary of this listener. Of a role that has ended, a Keeper has how it has ended, and its log.
func (l Kept) Clear(ctx context.Context, run string) error {
	_, err := l.Keeper.Release(ctx, &rpc.ReleaseRequest{Run: run, Binary: true}, grpc.WaitForReady(false))
	return wire.FromStatus("keeper", err)
}

// keptHandle is a role of a Keeper.
type keptHandle struct {
	reports
	where   string
	keeper  rpc.KeeperClient
	role    *rpc.KeptRole
	limits  jobspec.Deadlines
	cancel  context.CancelFunc
	stopped atomic.Bool // Stop was called
	left    atomic.Bool // Leave was called
	broken  atomic.Bool // the connection has ended, and not the role
	done    chan struct{}
	err     error // valid when done is closed
}

// ErrLeft is the error of Wait of a role that goes on without this process.
var ErrLeft = fault.New(fault.Canceled, "the role goes on without this listener")

// Broken reports whether a handle of Kept has ended because the Keeper does not answer: its role may run.
func Broken(h Handle) bool {
	k, ok := h.(*keptHandle)
	return ok && k.broken.Load()
}

// run follows the role to its end.
func (h *keptHandle) run(ctx context.Context) {
	defer close(h.done)
	defer h.cancel()
	var last *job.RoleStatus
	stream, err := h.keeper.Follow(ctx, h.role, grpc.WaitForReady(false))
	for err == nil {
		var event *rpc.RoleEvent
		if event, err = stream.Recv(); err != nil {
			break
		}
		if event.Status != nil {
			last = event.Status
		}
		if event.Report != nil {
			err = h.take(event.Report)
		}
	}
	h.err = h.outcome(last, err)
}

// outcome turns the end of the stream into the error of Wait.
func (h *keptHandle) outcome(last *job.RoleStatus, err error) error {
	switch {
	case errors.Is(err, io.EOF) && last.GetState() == job.State_SUCCEEDED:
		return nil
	case last.GetFailure() != nil:
		return wire.FaultOf(last.Failure)
	case h.left.Load():
		return ErrLeft
	case h.stopped.Load():
		return fault.E(fault.Canceled, fault.At(h.where), fault.Got("a role that was stopped and did not say how it ended"), fault.Cause(err))
	}
	h.broken.Store(true)
	return fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of the keeper of the listener's processes"), fault.Cause(err))
}

func (h *keptHandle) Wait() error {
	<-h.done
	return h.err
}

func (h *keptHandle) Node() string { return "" }
func (h *keptHandle) Pid() int     { return int(h.role.Pid) }

// Renew lets the Keeper pass the renewal on.
func (h *keptHandle) Renew(m *job.RoleRenewal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-h.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := h.keeper.RenewRole(ctx, &rpc.RenewRoleRequest{Role: h.role, Renewal: m}, grpc.WaitForReady(false))
	return wire.FromStatus(h.where, err)
}

// Stop asks the Keeper to end the role.
func (h *keptHandle) Stop(grace time.Duration) {
	if h.left.Load() {
		return
	}
	h.stopped.Store(true)
	h.endWithin(grace, grace+h.limits.LauncherKill)
}

// Kill asks the Keeper to kill the role.
func (h *keptHandle) Kill() { h.endWithin(0, h.limits.LauncherKill) }

// endWithin waits for the end of the role, and gives it up when the Keeper has not answered in time.
func (h *keptHandle) endWithin(grace, most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if grace > 0 {
		grace = max(grace, time.Millisecond)
	}
	_, err := h.keeper.EndRole(ctx, &rpc.EndRoleRequest{Role: h.role, GraceMs: grace.Milliseconds()}, grpc.WaitForReady(false))
	if err != nil {
		h.cancel()
	}
	<-h.done
}

// Leave ends this handle. The role goes on.
func (h *keptHandle) Leave() {
	h.left.Store(true)
	h.cancel()
	<-h.done
}
