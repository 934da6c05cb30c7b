package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// keeperNode is node a, whose keeper outlives its servers, and a directory that has no other node.
type keeperNode struct {
	keeper *launch.Keeper
	server *grpc.Server
	served chan error

	mu      sync.Mutex
	address string
}

// Nodes implements launch.Directory.
func (k *keeperNode) Nodes(context.Context) ([]cluster.Node, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return []cluster.Node{{ID: "a", Address: k.address}}, nil
}

// begin serves the node at another address.
func (k *keeperNode) begin(t *testing.T) {
	t.Helper()
	port, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k.server, k.served = wire.NewServer(nil), make(chan error, 1)
	rpc.RegisterKeeperServer(k.server, launch.ForNodes(k.keeper))
	go func() { k.served <- k.server.Serve(port) }()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.address = port.Addr().String()
}

func (k *keeperNode) end(t *testing.T) {
	t.Helper()
	k.server.Stop()
	if err := <-k.served; err != nil {
		t.Error(err)
	}
}

func newKeeper(id string, works launch.Launcher) *launch.Keeper {
	return launch.NewKeeper(works, &rpc.KeeperState{Id: id})
}

// A role outlives the listener that asked for it, and the listener of its node. The next one of each finds it, with its log, and nothing starts twice. A node with another keeper has lost it.
func TestRolesOutliveListeners(t *testing.T) {
	proceed, started := make(chan string), make(chan string, 10)
	works := launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
		fmt.Fprintln(log, "begins")
		started <- launch.StartOf(spec)
		select {
		case word := <-proceed:
			fmt.Fprintln(log, word)
			return nil
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.Got("a role that was stopped"))
		}
	})
	node := &keeperNode{keeper: newKeeper("first", works)}
	node.begin(t)
	defer func() { node.end(t); node.keeper.End(errors.New("the test has ended")) }()
	dir := filepath.Join(t.TempDir(), "nodes")
	listener := func() *launch.KeptNodes {
		t.Helper()
		l, err := launch.NewKeptNodes(node, node, nil, dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	run := "digits/1"
	begin := func(l *launch.KeptNodes, index uint32) launch.Handle {
		t.Helper()
		h, err := l.Start(t.Context(), &job.RoleSpec{Job: "digits", Role: job.Role_TRAINER, Index: index, CheckpointRun: run, Spec: &job.JobSpec{StartDeadline: durationpb.New(time.Minute)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	leave := func(h launch.Handle) {
		t.Helper()
		h.(interface{ Leave() }).Leave()
		if err := h.Wait(); !errors.Is(err, launch.ErrLeft) {
			t.Errorf("a role that was left has ended with %v", err)
		}
	}
	lines := func(l *launch.KeptNodes) (text []string) {
		t.Helper()
		if err := l.Lines(t.Context(), run, 0, false, func(m *rpc.LogLine) { text = append(text, fmt.Sprintf("%d %s %s", m.Number, m.Role, m.Line)) }); err != nil {
			t.Error(err)
		}
		return text
	}

	one := listener()
	h := begin(one, 0)
	if got := <-started; got != "trainer-0/0" || h.Node() != "a" {
		t.Fatalf("%s has started on %s", got, h.Node())
	}
	node.end(t) // the listener of the node, and then the one that asked
	leave(h)
	places := filepath.Join(dir, "digits%2F1.places")
	f, err := os.OpenFile(places, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write([]byte{100, 1}) // of a listener that was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	node.begin(t)
	two := listener()
	h = begin(two, 0)
	proceed <- "ends"
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := lines(two), []string{"0 trainer-0 begins", "1 trainer-0 ends"}; !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
	three := listener()
	if err := begin(three, 0).Wait(); err != nil { // it has ended, and is told so
		t.Error(err)
	}
	if got := lines(three); len(got) != 2 {
		t.Errorf("the next listener knows %q", got)
	}
	h = begin(three, 1)
	if got := <-started; got != "trainer-1/0" {
		t.Errorf("%s has started", got)
	}
	h.Stop(time.Minute)
	expectFault(t, h.Wait(), fault.Canceled)
	h = begin(three, 2)
	<-started
	lost := node.keeper
	node.end(t)
	node.keeper = newKeeper("second", works)
	node.begin(t)
	expectFault(t, h.Wait(), fault.LostMember, "trainer 2 of job digits on node a", "the end of the processes")
	lost.End(errors.New("the node was killed"))
	if err := three.Only(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(places); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the places of a run that was released: %v", err)
	}
	select {
	case name := <-started:
		t.Errorf("%s has started, too", name)
	default:
	}
}

// A role whose node is not in the cluster waits for it, says so, and is given up when it is killed.
func TestRoleWaitsForItsNode(t *testing.T) {
	node := &keeperNode{keeper: newKeeper("only", launch.Goroutines(untilStopped))}
	node.begin(t)
	defer func() { node.end(t); node.keeper.End(errors.New("the test has ended")) }()
	l, err := launch.NewKeptNodes(&nodes{}, node, nil, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Start(t.Context(), &job.RoleSpec{Job: "digits", CheckpointRun: "run", Role: job.Role_TRAINER}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for list, changed := h.Waits(); len(list) == 0 || list[0].What != "its node a to answer"; list, changed = h.Waits() {
		<-changed
	}
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "trainer 0 of job digits on node a")
}

// A node of another protocol starts no role: the listener is told of both builds, and what to do.
func TestNodeOfAnotherProtocol(t *testing.T) {
	about := &rpc.KeeperState{Id: "first"}
	works := launch.Goroutines(func(context.Context, *job.RoleSpec, io.Writer) error { return nil })
	node := &keeperNode{keeper: launch.NewKeeper(works, about)}
	about.Protocol, about.Build = wire.Protocol+1, "v9.9.9"
	node.begin(t)
	defer func() { node.end(t); node.keeper.End(errors.New("the test has ended")) }()
	l, err := launch.NewKeptNodes(node, node, nil, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Start(t.Context(), &job.RoleSpec{Job: "digits", Role: job.Role_TRAINER, CheckpointRun: "digits/1", Spec: &job.JobSpec{}}, nil)
	for _, want := range []string{"node a", "v9.9.9", thisbuild.Name(), "start the listeners of all nodes from one build"} {
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
