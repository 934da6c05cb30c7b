package launch

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// startTimeout bounds the wait for a node to say that it has started a role; then the next node is asked.
const startTimeout = 10 * time.Second

// remoteRole is a role on another node.
type remoteRole struct {
	where, node string
	cancel      context.CancelFunc
	out         *lines
	started     chan struct{} // closed when the node has said anything about the role
	done        chan struct{}
	err         error       // valid when done is closed
	stopped     atomic.Bool // it was told to end: set before the stream is touched, so that whoever sees its end knows

	mu     sync.Mutex
	asked  bool                                                        // to end, by the stream
	stream grpc.BidiStreamingClient[rpc.StartRoleChunk, rpc.RoleEvent] // set once the spec is sent
}

// run keeps the stream until the role has ended.
func (h *remoteRole) run(ctx context.Context, conn *grpc.ClientConn, spec *job.RoleSpec) {
	last, err := h.follow(ctx, rpc.NewListenerClient(conn), spec)
	h.out.Flush()
	h.err = h.outcome(last, err)
	h.cancel()
	_ = conn.Close()
	close(h.done)
}

// await returns nil when the node has said that it has started the role, which may have
// ended since, and else why it has not; then nothing is left of the stream.
func (h *remoteRole) await(ctx context.Context) error {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	kind := fault.Unavailable
	select {
	case <-h.started:
		return nil
	case <-h.done:
		select {
		case <-h.started:
			return nil
		default:
			return h.err
		}
	case <-timer.C:
	case <-ctx.Done():
		kind = fault.Canceled
	}
	h.cancel()
	<-h.done
	return fault.E(kind, fault.At(h.where), fault.Got("no word that it was started"), fault.Cause(context.Cause(ctx)))
}

// follow sends the spec and passes on what the node tells. It returns the last status,
// and why the stream has ended: io.EOF when the node has ended it.
func (h *remoteRole) follow(ctx context.Context, client rpc.ListenerClient, spec *job.RoleSpec) (*job.RoleStatus, error) {
	stream, err := client.StartRole(ctx, grpc.WaitForReady(false)) // another node may be there
	if err != nil {
		return nil, err
	}
	send := func(piece []byte) error { return stream.Send(&rpc.StartRoleChunk{Piece: piece}) }
	if err = wire.SendPieces(spec, send); err == nil {
		err = send(nil)
	}
	if err == nil {
		h.mu.Lock()
		h.stream = stream
		h.mu.Unlock()
	} else if !errors.Is(err, io.EOF) { // io.EOF: the node has ended the stream, and Recv says why
		return nil, err
	}
	var last *job.RoleStatus
	for first := true; ; first = false {
		event, err := stream.Recv()
		if err != nil {
			return last, err
		}
		if first {
			close(h.started)
		}
		if event.Log != nil {
			_, _ = h.out.Write([]byte(event.Log.Line + "\n"))
		}
		if event.Status != nil {
			last = event.Status
		}
	}
}

// outcome turns the end of the stream into the error of Wait.
func (h *remoteRole) outcome(last *job.RoleStatus, err error) error {
	if errors.Is(err, io.EOF) && last.GetState() == job.State_SUCCEEDED {
		return nil
	}
	var f *fault.Fault
	if errors.As(wire.FaultOf(last.GetFailure()), &f) {
		f.Where = f.Where + " on node " + h.node
		return f
	}
	select {
	case <-h.started:
	default:
		return wire.FromStatus(h.where, err) // it never ran
	}
	if h.stopped.Load() {
		return fault.E(fault.Canceled, fault.At(h.where), fault.Got("no orderly end after being stopped"), fault.Cause(err))
	}
	return fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of the connection to the node"), fault.Cause(err))
}

func (h *remoteRole) Wait() error {
	<-h.done
	return h.err
}

func (h *remoteRole) Node() string { return h.node }
func (h *remoteRole) Pid() int     { return 0 }
