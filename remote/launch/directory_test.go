package launch_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"

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
	at, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewServer()
	rpc.RegisterListenerServer(s, listener{Launcher: l})
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

// obedient is a role that works until it is stopped.
func obedient(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
	fmt.Fprintln(log, "ready")
	<-ctx.Done()
	fmt.Fprintln(log, "drained")
	return nil
}
