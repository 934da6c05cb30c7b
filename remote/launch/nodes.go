package launch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// Nodes starts roles on the listeners of a cluster: each on the node that its spec wants, or else in turns: trainer 0 on one node, trainer 1 on the next, and pservers likewise, so that
// those of a job are spread evenly. Another start of a role comes to the next node, and another job begins with another one. Nodes passes over a node that does not
// answer, and over one that a role should avoid.
//
// One stream of Listener.StartRole goes with each role, for as long as the role runs:
//
//	client                                          node
//	   |-- pieces of the RoleSpec, an empty piece --->|   starts the role
//	   |<- RoleEvent: status, log lines, reports -----|
//	   |-- a renewal -------------------------------->|   passes the next credentials on
//	   |-- end of the client's side ----------------->|   asks the role to end
//	   |-- a further piece -------------------------->|   kills the role
//	   |   the stream breaks                          |   the role is stopped
//	   |<- RoleEvent: how the role ended; io.EOF -----|
type Nodes struct {
	Directory Directory
	Side      *wire.Side // of this listener, when it calls others
}

// A Directory lists nodes.
type Directory interface {
	Nodes(ctx context.Context) ([]cluster.Node, error)
}

var _ Launcher = (*Nodes)(nil)

// Start finds a node that starts the role.
func (n *Nodes) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	if size := proto.Size(spec); size > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(size), MaxSpec)
	}
	nodes, err := n.Directory.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, noNode(spec)
	}
	spec = proto.Clone(spec).(*job.RoleSpec)
	spec.Hosts = uint32(len(nodes))
	nodes = inTurn(nodes, spec)
	var failures []error
	for _, node := range nodes {
		h, err := n.startOn(ctx, node, spec, log)
		if err == nil {
			return h, nil
		}
		if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) {
			return nil, err
		}
		failures = append(failures, err)
	}
	return nil, noneAnswers(spec, failures)
}

// noNode is why a role of a cluster without nodes does not start.
func noNode(spec *job.RoleSpec) error {
	return fault.E(fault.Unavailable, fault.At(nameOf(spec)), fault.Got("no node to run it on"), fault.Hint("start listeners that join the cluster"))
}

// inTurn orders nodes: first the one that a role wants or whose turn it is, last the one that it should avoid.
func inTurn(nodes []cluster.Node, spec *job.RoleSpec) []cluster.Node {
	turn := turnOf(spec) % len(nodes)
	nodes = slices.Concat(nodes[turn:], nodes[:turn])
	if i := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.ID == spec.Avoid }); i >= 0 {
		last := nodes[i]
		nodes = append(slices.Delete(nodes, i, i+1), last)
	}
	if i := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.ID == spec.Node }); i > 0 {
		wanted := nodes[i]
		nodes = slices.Insert(slices.Delete(nodes, i, i+1), 0, wanted)
	}
	return nodes
}

// noneAnswers is why no node starts a role.
func noneAnswers(spec *job.RoleSpec, failures []error) error {
	return fault.E(fault.Unavailable, fault.At(nameOf(spec)), fault.Gotf("%d nodes that do not answer, or are of another build", len(failures)), fault.Cause(errors.Join(failures...)))
}

// turnOf is where in the list of nodes the search for one begins. A standby begins one place behind its pserver.
func turnOf(spec *job.RoleSpec) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, spec.Job)
	turn := int(h.Sum32()>>1) + int(spec.Index) + int(spec.Start)
	if spec.Role == job.Role_STANDBY {
		turn++
	}
	return turn
}

// startOn starts the role on one node. It returns when the node has said that the role runs.
func (n *Nodes) startOn(ctx context.Context, node cluster.Node, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	conn, err := wire.Dial(node.Address, n.Side)
	if err != nil {
		return nil, err
	}
	// The stream outlives ctx, whose end asks the role to end.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &remoteRole{where: nameOf(spec) + " on node " + node.ID, node: node.ID, limits: jobspec.DeadlinesOf(spec.Spec), cancel: cancel,
		out: newLines(log), started: make(chan struct{}), done: make(chan struct{})}
	if spec.GetSpec().GetProfileSteps() > 0 {
		h.ahead = clockAhead(ctx, rpc.NewListenerClient(conn))
	}
	go h.run(streamCtx, conn, spec)
	if err := h.await(ctx); err != nil {
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { h.Stop(h.limits.LauncherStop) })
	context.AfterFunc(streamCtx, func() { unwatch() })
	return h, nil
}

// clockAhead measures how much the clock of a node is ahead of that of this machine. The node reads its clock in the middle of a round trip, as far as
// anybody knows, so the shortest of some counts. It is 0 for a node that does not answer, which then starts no role either.
func clockAhead(ctx context.Context, client rpc.ListenerClient) (ahead time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	shortest := clockTime
	for range clockTries {
		asked := time.Now()
		answer, err := client.Describe(ctx, &rpc.DescribeRequest{}, grpc.WaitForReady(false))
		took := time.Since(asked)
		if err != nil {
			return ahead
		}
		if took < shortest && answer.Now > 0 { // a listener of an older build does not say
			shortest, ahead = took, time.Unix(0, answer.Now).Sub(asked.Add(took/2))
		}
	}
	return ahead
}

// How often, and for how long at most, a node is asked for its clock.
const (
	clockTries = 5
	clockTime  = 2 * time.Second
)

// remoteRole is a role on another node.
type remoteRole struct {
	reports
	where, node string
	limits      jobspec.Deadlines
	cancel      context.CancelFunc
	out         *lines
	started     chan struct{} // closed when the node has said anything about the role
	done        chan struct{}
	err         error       // valid when done is closed
	stopped     atomic.Bool // Stop was called: set before the stream is touched, so that outcome knows

	mu     sync.Mutex
	asked  bool                                                        // Stop has ended the client's side of the stream
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

// await returns nil when the node has said that it has started the role; the role may have ended since. Otherwise it ends the stream and returns why
// the role was not started.
func (h *remoteRole) await(ctx context.Context) error {
	timer := time.NewTimer(h.limits.NodeStart)
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
	return fault.E(kind, fault.At(h.where), fault.Got("a node that does not say that the role was started"), fault.Cause(context.Cause(ctx)))
}

// follow sends the spec and takes what the node sends. It returns the last status, and why the stream has ended: io.EOF when the node has ended it.
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
		if event.Report != nil {
			if err := h.take(event.Report); err != nil {
				fmt.Fprintln(h.out, err)
			}
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
		return fault.E(fault.Canceled, fault.At(h.where), fault.Got("a role that was stopped and did not say how it ended"), fault.Cause(err))
	}
	return fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of the connection to the node"), fault.Cause(err))
}

func (h *remoteRole) Wait() error {
	<-h.done
	return h.err
}

func (h *remoteRole) Node() string { return h.node }
func (h *remoteRole) Pid() int     { return 0 }

// Renew sends the renewal to the node. A node that is paused takes it when it goes on.
func (h *remoteRole) Renew(m *job.RoleRenewal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked || h.stream == nil {
		return ended(h.where, errAsked)
	}
	if err := h.stream.Send(&rpc.StartRoleChunk{Renewal: m}); err != nil {
		return ended(h.where, err)
	}
	return nil
}

// Kill tells the node to kill the role. When the node does not answer soon, the stream is broken, and then the node ends the role.
func (h *remoteRole) Kill() {
	h.endWithin(h.limits.LauncherKill, func() {
		if h.stream != nil && !h.asked {
			_ = h.stream.Send(&rpc.StartRoleChunk{}) // fails only when the stream has ended
		}
	})
}

// Stop asks the node to end the role. After grace the stream is broken, so that the node stops the role; nothing more is heard of it then.
func (h *remoteRole) Stop(grace time.Duration) {
	h.stopped.Store(true)
	h.endWithin(grace, func() {
		if !h.asked && h.stream != nil {
			_ = h.stream.CloseSend() // fails only when the stream has ended
		}
		h.asked = true
	})
}

// endWithin calls ask with h.mu held, and waits for the end of the role. It breaks the stream when grace has passed, also while ask still waits for
// the node.
func (h *remoteRole) endWithin(grace time.Duration, ask func()) {
	giveUp := time.AfterFunc(grace, h.cancel)
	defer giveUp.Stop()
	h.mu.Lock()
	ask()
	h.mu.Unlock()
	<-h.done
}
