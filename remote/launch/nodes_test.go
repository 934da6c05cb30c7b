package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// listener is the part of a node that starts roles.
type listener struct {
	rpc.UnimplementedListenerServer
	launch.Launcher
}

func (l listener) StartRole(stream grpc.BidiStreamingServer[rpc.StartRoleChunk, rpc.RoleEvent]) error {
	return launch.ServeRole(stream, l.Launcher)
}

// nodes is a directory of nodes of the test.
type nodes []cluster.Node

func (n *nodes) Nodes(context.Context) ([]cluster.Node, error) { return *n, nil }

// add starts a node with a launcher of its own.
func (n *nodes) add(t *testing.T, id string, l launch.Launcher) *grpc.Server {
	t.Helper()
	return n.serve(t, id, listener{Launcher: l})
}

// serve starts a node.
func (n *nodes) serve(t *testing.T, id string, l rpc.ListenerServer) *grpc.Server {
	t.Helper()
	at, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewServer(nil)
	rpc.RegisterListenerServer(s, l)
	served := make(chan error, 1)
	go func() { served <- s.Serve(at) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	*n = append(*n, cluster.Node{ID: id, Address: at.Addr().String()})
	return s
}

// addDead adds a node that nobody serves.
func (n *nodes) addDead(t *testing.T, id string) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	*n = append(*n, cluster.Node{ID: id, Address: at.Addr().String()})
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
}

// untilStopped is a role that works until it is stopped.
func untilStopped(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
	fmt.Fprintln(log, "ready")
	<-ctx.Done()
	fmt.Fprintln(log, "drained")
	return nil
}

func TestNodesTakeTurns(t *testing.T) {
	var all nodes
	works := launch.Goroutines(func(_ context.Context, spec *job.RoleSpec, log io.Writer) error {
		fmt.Fprintf(log, "%d bytes \xff on one of %d hosts\n", len(spec.Program), spec.Hosts)
		return nil
	})
	all.add(t, "a", works)
	all.addDead(t, "b")
	all.add(t, "c", works)
	l := &launch.Nodes{Directory: &all}
	on := func(role job.Role, index, before uint32) string {
		t.Helper()
		log := newTranscript()
		h, err := l.Start(t.Context(), &job.RoleSpec{Job: "digits", Role: role, Index: index, Start: before, Program: make([]byte, 1<<20)}, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Fatal(err)
		}
		if want := []string{fmt.Sprintf("1048576 bytes \uFFFD on one of %d hosts\n", len(all))}; !slices.Equal(log.rest(), want) {
			t.Fatalf("the log is not %q", want)
		}
		return h.Node()
	}
	// Node b is dead, and c takes its turn.
	var ran, again, servers []string
	for i := range uint32(6) {
		ran = append(ran, on(job.Role_TRAINER, i, 0))
		again = append(again, on(job.Role_TRAINER, 0, i))
		servers = append(servers, on(job.Role_PSERVER, i, 0))
	}
	if want := slices.Concat(ran[3:], ran[:3]); !slices.Equal(ran, want) || strings.Count(strings.Join(ran, ""), "a") != 2 {
		t.Errorf("trainers run on %v, want every third on a", ran)
	}
	if !slices.Equal(again, ran) || !slices.Equal(servers, ran) {
		t.Errorf("starts of one trainer are on %v, pservers on %v; want %v", again, servers, ran)
	}
	all = slices.Delete(all, 1, 2)
	for i := range uint32(4) {
		if p, s := on(job.Role_PSERVER, i, 0), on(job.Role_STANDBY, i, 0); p == s {
			t.Errorf("pserver %d and its standby are on %s", i, p)
		}
	}
}

func TestNoNodeAnswers(t *testing.T) {
	var all nodes
	l := &launch.Nodes{Directory: &all}
	_, err := l.Start(t.Context(), trainer(0), nil)
	expectFault(t, err, fault.Unavailable, "trainer 0 of job digits", "no node")
	all.addDead(t, "a")
	all.addDead(t, "b")
	_, err = l.Start(t.Context(), trainer(0), nil)
	expectFault(t, err, fault.Unavailable, "on node a", "on node b")
}

func TestRoleFailsOnNode(t *testing.T) {
	var all nodes
	all.add(t, "a", launch.Goroutines(func(context.Context, *job.RoleSpec, io.Writer) error {
		return fault.E(fault.NotFinite, fault.Op("mean"), fault.Var("loss"))
	}))
	h, _ := start(t, &launch.Nodes{Directory: &all})
	expectFault(t, h.Wait(), fault.NotFinite, "trainer 1 of job digits on node a", "op mean", `"loss"`)
}

func TestRoleDoesNotStartOnNode(t *testing.T) {
	var all nodes
	all.add(t, "a", launch.Processes{Binary: t.TempDir() + "/none"})
	_, err := (&launch.Nodes{Directory: &all}).Start(t.Context(), trainer(1), nil)
	expectFault(t, err, fault.InvalidArgument, "trainer 1 of job digits")
}

// A stream that ends within the spec starts nothing.
func TestHalfASpecStartsNothing(t *testing.T) {
	var all nodes
	all.add(t, "a", launch.Goroutines(func(context.Context, *job.RoleSpec, io.Writer) error {
		t.Error("a role was started")
		return nil
	}))
	conn, err := wire.Dial(all[0].Address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, piece := range [][]byte{nil, {0x0a, 0x02, 'a'}, {0xff}} {
		stream, err := rpc.NewListenerClient(conn).StartRole(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := fault.Canceled
		if piece != nil {
			if err := stream.Send(&rpc.StartRoleChunk{Piece: piece}); err != nil {
				t.Fatal(err)
			}
			if piece[0] == 0xff {
				want = fault.Corrupt
				if err := stream.Send(&rpc.StartRoleChunk{}); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		expectFault(t, wire.FromStatus("node a", err), want)
	}
}

// A node that takes the connection and says nothing does not hold the caller longer than its context.
func TestNodeSaysNothing(t *testing.T) {
	asked := make(chan struct{})
	var all nodes
	all.add(t, "a", mute(asked))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := (&launch.Nodes{Directory: &all}).Start(ctx, trainer(0), nil)
	expectFault(t, err, fault.Canceled, "trainer 0 of job digits on node a")
}

// mute starts nothing until its context ends; the channel is closed when it is asked to.
type mute chan struct{}

func (m mute) Start(ctx context.Context, _ *job.RoleSpec, _ io.Writer) (launch.Handle, error) {
	close(m)
	select {
	case <-ctx.Done():
		return nil, fault.New(fault.Canceled, "the client has gone")
	case <-time.After(patience):
		return nil, fault.New(fault.Internal, "the client is still there")
	}
}

func TestStopOnNode(t *testing.T) {
	for _, c := range []struct {
		name     string
		launcher launch.Launcher
	}{
		{"goroutine", launch.Goroutines(untilStopped)},
		{"process", launched("orderly")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all nodes
			all.add(t, "a", c.launcher)
			h, log := start(t, &launch.Nodes{Directory: &all})
			log.until(t, "ready")
			h.Stop(patience)
			if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			log.until(t, "drained")
		})
	}
}

// Kill reaches the role: the node says that it has ended.
func TestKillOnNode(t *testing.T) {
	var all nodes
	all.add(t, "a", launched("deaf"))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "trainer 1 of job digits on node a", "signal: killed")
}

// A client without patience breaks the stream, and the node ends the role.
func TestStopOnNodeByForce(t *testing.T) {
	var all nodes
	release := make(chan struct{})
	ended := make(chan struct{})
	all.add(t, "a", launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
		defer close(ended)
		fmt.Fprintln(log, "ready")
		<-ctx.Done()
		<-release
		return nil
	}))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	h.Stop(0)
	expectFault(t, h.Wait(), fault.Canceled, "trainer 1 of job digits on node a")
	close(release)
	<-ended
}

func TestNodeIsLost(t *testing.T) {
	var all nodes
	ended := make(chan struct{})
	node := all.add(t, "a", launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
		defer close(ended)
		return untilStopped(ctx, spec, log)
	}))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	node.Stop()
	expectFault(t, h.Wait(), fault.LostMember, "trainer 1 of job digits on node a")
	<-ended
}
