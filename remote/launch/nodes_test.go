package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

func TestNodesTakeTurns(t *testing.T) {
	var all nodes
	works := launch.Goroutines(func(_ context.Context, spec *job.RoleSpec, log io.Writer) error {
		fmt.Fprintf(log, "%d bytes \xff\n", len(spec.Program))
		return nil
	})
	all.add(t, "a", works)
	all.addDead(t, "b")
	all.add(t, "c", works)
	l := &launch.Nodes{Directory: &all}
	var ran []string
	for range 4 {
		h, log := start(t, l)
		if err := h.Wait(); err != nil {
			t.Fatal(err)
		}
		ran = append(ran, h.Node())
		if want := []string{"1048576 bytes \uFFFD\n"}; !slices.Equal(log.rest(), want) {
			t.Fatalf("the log is not %q", want)
		}
	}
	if want := []string{"a", "c", "c", "a"}; !slices.Equal(ran, want) {
		t.Fatalf("ran on %v, want %v", ran, want)
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
	conn, err := wire.Dial(all[0].Address)
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
