package pstest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

// Identity is the job of every server of this package, in its first generation.
var Identity = wire.Identity{Job: "job", Program: []byte{1, 2, 3}, Generation: 7, Fence: 10}

// Config returns the configuration of a server with deadlines that no test reaches.
func Config(trainers int) pserver.Config {
	return pserver.Config{Identity: Identity, Servers: 1, MaxTrainers: trainers, StartDeadline: time.Hour, RoundDeadline: time.Hour, Workers: 2}
}

// A Server is a parameter server that runs.
type Server struct {
	*pserver.Server
	Client  rpc.ParameterServerClient
	Address string
	Data    string // address of its data plane; empty: it has none
	stop    context.CancelFunc
	err     error
	done    chan struct{}
}

// Start serves p over loopback until the test ends, to a first generation of all trainers.
func Start(t testing.TB, cfg pserver.Config, p *Program) *Server {
	s := New(t, cfg)
	s.Serve(p)
	if err := s.Begin(cfg.MaxTrainers); err != nil {
		t.Fatal(err)
	}
	return s
}

// New opens the port of a server that has no program yet, until the test ends.
func New(t testing.TB, cfg pserver.Config) *Server {
	s := &Server{Server: pserver.New(cfg)}
	service := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(service, s.Server)
	conn := Serve(t, service)
	s.Client, s.Address = rpc.NewParameterServerClient(conn), strings.TrimPrefix(conn.Target(), "passthrough:///")
	if cfg.Data != nil {
		s.Data = cfg.Data.Address()
	}
	t.Cleanup(s.Stop)
	Watchdog(t, s.giveUp)
	return s
}

// giveUp fails the server, and so all calls that wait in it.
func (s *Server) giveUp() {
	status, err := s.Status(context.Background(), &rpc.StatusRequest{Job: Identity.Job})
	s.Fail(TimedOut("pserver", status.GetWaits(), err))
}

// Serve serves a gRPC service over loopback until the test ends, and returns a connection to it.
func Serve(t testing.TB, service *grpc.Server) *grpc.ClientConn {
	l, err := wire.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, service, l, 0) }()
	conn, err := wire.Dial(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// Serve starts the program of the server.
func (s *Server) Serve(p *Program) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		s.err = s.Server.Serve(ctx, p.Op(), p)
	}()
}

// Begin begins the first generation, with trainers 0 to n-1.
func (s *Server) Begin(n int) error {
	ranks := make([]uint32, n)
	for rank := range ranks {
		ranks[rank] = uint32(rank)
	}
	return s.Resume(uint64(Identity.Generation), 0, Members(ranks...))
}

// Members are ranks that joined in the first generation.
func Members(ranks ...uint32) []*rpc.Member {
	var list []*rpc.Member
	for _, rank := range ranks {
		list = append(list, &rpc.Member{Rank: rank, Since: uint64(Identity.Generation)})
	}
	return list
}

// Freeze ends a generation, as the coordinator.
func (s *Server) Freeze(generation uint64) (*rpc.FreezeResponse, error) {
	return s.Client.Freeze(context.Background(), &rpc.FreezeRequest{Id: coordinator(generation)})
}

// Resume begins a generation, as the coordinator.
func (s *Server) Resume(generation, round uint64, members []*rpc.Member, commit ...*rpc.Declared) error {
	_, err := s.Client.Resume(context.Background(), &rpc.ResumeRequest{Id: coordinator(generation), Members: members, Round: round, Commit: commit})
	return err
}

func coordinator(generation uint64) *rpc.Identity {
	own := Identity
	own.Generation = id.Generation(generation)
	return own.Of(0, 0, 0)
}

// Stop cancels the program and waits for its end.
func (s *Server) Stop() {
	if s.done != nil {
		s.stop()
		<-s.done
	}
}

// Wait returns what the program ended with.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Patience is how long a test may wait, on a slow machine under the race detector, too.
const Patience = time.Minute

// Watchdog calls giveUp when a test has taken longer than Patience. giveUp must fail the server that the test waits for, with TimedOut.
// Benchmarks have no watchdog.
func Watchdog(t testing.TB, giveUp func()) {
	if _, ok := t.(*testing.T); ok {
		timer := time.AfterFunc(Patience, giveUp)
		t.Cleanup(func() { timer.Stop() })
	}
}

// TimedOut is the error of a server that a watchdog has ended: it says what the server waits for.
func TimedOut(server string, waits []*job.Wait, err error) error {
	text := "nothing"
	for i, w := range waits {
		if i == 0 {
			text = ""
		} else {
			text += "; "
		}
		text += fmt.Sprintf("%s by %v", w.What, w.By)
	}
	return fault.E(fault.DeadlineExceeded, fault.At("the test of a "+server), fault.Gotf("a test of more than %v, which waits for %s", Patience, text),
		fault.Cause(err))
}
