package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// FromStatus puts the name of a peer before its address in errors of the transport, and does not change other faults.
func TestNameOfThePeer(t *testing.T) {
	client, address := start(t, failing(func() error { return nil }))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.SendBarrier(ended, &rpc.BarrierRequest{})
	named := wire.FromStatus("pserver 1", err)
	if want := "pserver 1 at " + address + ": "; !strings.HasPrefix(named.Error(), want) || !errors.Is(named, fault.Canceled) {
		t.Errorf("got %q, want it to start with %q", named, want)
	}
	if again := wire.FromStatus("job 3", named); again != named {
		t.Errorf("named again: %v", again)
	}
	own := fault.E(fault.Stale, fault.Cause(context.Canceled))
	if got := wire.FromStatus("pserver 1", own); got != own {
		t.Errorf("got %v", got)
	}
	if got := wire.FromStatus("pserver 1", io.ErrUnexpectedEOF); !errors.Is(got, fault.Unavailable) {
		t.Errorf("got %v", got)
	}
}

// A process answers that speaks, and not one whose machine alone accepts connections.
func TestAnswers(t *testing.T) {
	_, speaks := start(t, failing(func() error { return nil }))
	if !(*wire.Side)(nil).Answers(t.Context(), speaks) {
		t.Error("a server that runs does not answer")
	}
	port := listen(t)
	defer port.Close()
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := port.Accept(); err == nil {
			accepted <- conn
		}
		cancel() // as long as anybody waits
	}()
	if (*wire.Side)(nil).Answers(ctx, port.Addr().String()) {
		t.Error("a process that hangs answers")
	}
	(<-accepted).Close()
	port.Close()
	if (*wire.Side)(nil).Answers(t.Context(), port.Addr().String()) {
		t.Error("nobody answers")
	}
}

// The error of a connection that fails has the reason of the system, once.
func TestNoConnection(t *testing.T) {
	port, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	conn, err := wire.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := rpc.NewParameterServerClient(conn)
	_, unary := client.SendBarrier(t.Context(), &rpc.BarrierRequest{}, grpc.WaitForReady(false))
	_, download := client.GetVariable(t.Context(), &rpc.GetRequest{}, grpc.WaitForReady(false))
	for name, want := range map[string]string{"pserver 1": "pserver 1 at " + address, "pserver " + address: "pserver " + address} {
		if got := wire.FromStatus(name, unary); got.Error() != want+": connection refused" || !errors.Is(got, fault.Unavailable) {
			t.Errorf("unary: %v, want %s", got, want)
		}
	}
	if got := wire.FromStatus("pserver 1", download); got.Error() != "pserver 1: connection refused" || !errors.Is(got, fault.Unavailable) {
		t.Errorf("download: %v", got)
	}
}

// When its context ends, Serve lets a call in flight end and returns after its handler has.
func TestServeLetsCallsFinish(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	server := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(server, &service{barrier: func(context.Context, *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
		close(entered)
		<-release
		return &rpc.BarrierResponse{}, nil
	}})
	l := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- wire.Serve(ctx, server, l, time.Hour) }()
	client := dial(t, l.Addr().String())
	go func() {
		_, err := client.SendBarrier(t.Context(), &rpc.BarrierRequest{})
		answered <- err
	}()
	<-entered
	stop()
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A call that does not end within the grace is cut, and its caller may try again.
func TestServeCutsAfterGrace(t *testing.T) {
	entered := make(chan struct{})
	server := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(server, &service{barrier: func(ctx context.Context, _ *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	l := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- wire.Serve(ctx, server, l, 0) }()
	client := dial(t, l.Addr().String())
	go func() {
		_, err := client.SendBarrier(t.Context(), &rpc.BarrierRequest{})
		answered <- err
	}()
	<-entered
	stop()
	if err := <-answered; !errors.Is(err, fault.Unavailable) {
		t.Errorf("the call that was cut: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A listener that fails is an error that names the address.
func TestServeReportsItsListener(t *testing.T) {
	l := listen(t)
	l.Close()
	err := wire.Serve(t.Context(), wire.NewServer(nil), l, 0)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Error(err)
	}
	if _, err := wire.Listen(t.Context(), "127.0.0.1:no"); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}

// A call waits for a server that is not there yet.
func TestCallWaitsForServer(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	l.Close()
	client := dial(t, address)
	answered := make(chan error, 1)
	go func() {
		_, err := client.SendBarrier(t.Context(), &rpc.BarrierRequest{})
		answered <- err
	}()
	l, err := wire.Listen(t.Context(), address)
	if err != nil {
		t.Skip("another process took the port: ", err)
	}
	server := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(server, &service{barrier: func(context.Context, *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
		return &rpc.BarrierResponse{}, nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, server, l, time.Hour) }()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestIdentity(t *testing.T) {
	mine := wire.Identity{Job: "a", Program: []byte{1, 2}, Generation: 3}
	for _, c := range []struct {
		id   *rpc.Identity
		kind fault.Kind
	}{
		{mine.Of(1, 2, 3), fault.OK},
		{nil, fault.Foreign},
		{wire.Identity{Job: "b", Program: []byte{1, 2}, Generation: 3}.Of(0, 0, 0), fault.Foreign},
		{wire.Identity{Job: "a", Program: []byte{1}, Generation: 3}.Of(0, 0, 0), fault.Foreign},
		{wire.Identity{Job: "a", Program: []byte{1, 2}, Generation: 2, Fence: 5}.Of(0, 0, 0), fault.OK}, // for the receiver to judge
	} {
		if err := mine.Check(c.id); fault.KindOf(err) != c.kind {
			t.Errorf("%v: got %v, want %v", c.id, err, c.kind)
		}
	}
}

func TestRetryOnlyWhatMayPass(t *testing.T) {
	for kind := fault.Internal; kind <= fault.Superseded; kind++ {
		synctest.Test(t, func(t *testing.T) {
			var retries []id.Retry
			err := wire.Retry(t.Context(), func(retry id.Retry) error {
				if retries = append(retries, retry); retry == 3 {
					return nil
				}
				return fault.New(kind, "no")
			})
			if kind == fault.Unavailable {
				if err != nil || len(retries) != 4 || retries[3] != 3 {
					t.Errorf("retries %v, %v", retries, err)
				}
			} else if !errors.Is(err, kind) || len(retries) != 1 {
				t.Errorf("%v: retries %v, %v", kind, retries, err)
			}
		})
	}
}

// Calls are retried until the context ends, at least once every 1.5 seconds. The error of the last call is returned.
func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		calls, start := 0, time.Now()
		err := wire.Retry(ctx, func(id.Retry) error { calls++; return fault.New(fault.Unavailable, "refused") })
		if !errors.Is(err, fault.Unavailable) || time.Since(start) != time.Minute || calls < 40 || calls > 140 {
			t.Errorf("%d calls in %v: %v", calls, time.Since(start), err)
		}
	})
}

// RetryWithin gives up a peer that is gone for longer than the patience. It does not give up a peer that comes back in between, or that lets a call
// wait for hours.
func TestRetryWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fault.New(fault.Unavailable, "gone")
		start := time.Now()
		if err := wire.RetryWithin(t.Context(), time.Minute, func(id.Retry) error { return gone }); err != gone {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
		cuts := 0
		err := wire.RetryWithin(t.Context(), time.Minute, func(id.Retry) error {
			if cuts == 5 {
				return nil
			}
			cuts++
			time.Sleep(time.Hour) // the fake clock's: a call that waits and is then cut
			return gone
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A peer that is paused in the middle of a call, with its connection open, is noticed within peerSilence + peerAnswer.
func TestSilentPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		server := wire.NewServer(nil)
		rpc.RegisterParameterServerServer(server, &service{barrier: func(ctx context.Context, _ *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		l := bufconn.Listen(1 << 20)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- wire.Serve(ctx, server, l, 0) }()
		peer := &mute{silent: make(chan struct{}), closed: make(chan struct{})}
		conn, err := wire.DialWith(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := l.DialContext(ctx)
			peer.Conn = c
			return peer, err
		}))
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := rpc.NewParameterServerClient(conn).SendBarrier(t.Context(), &rpc.BarrierRequest{})
			failed <- err
		}()
		<-entered
		synctest.Wait()
		close(peer.silent)
		start := time.Now()
		if err := <-failed; !errors.Is(err, fault.Unavailable) {
			t.Errorf("the call: %v", err)
		}
		if took := time.Since(start); took > wire.PeerSilence+wire.PeerAnswer {
			t.Errorf("noticed after %v", took)
		}
		conn.Close()
		stop()
		<-served
	})
}

// A machine that sleeps for an hour wakes both sides of a socket at once, and calls under way go on: neither takes the silence for the end of the other.
func TestSilenceOnThisMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, awake := make(chan struct{}), make(chan struct{})
		server := wire.NewServer(nil, wire.OfThisMachine())
		rpc.RegisterParameterServerServer(server, &service{barrier: func(ctx context.Context, _ *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
			close(entered)
			select {
			case <-awake:
				return &rpc.BarrierResponse{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		l := bufconn.Listen(1 << 20)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- wire.Serve(ctx, server, l, 0) }()
		sleeps, wakes := make(chan struct{}), make(chan struct{})
		conn, err := wire.DialWith(wire.Silently, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := l.DialContext(ctx)
			return &sleeper{c, sleeps, wakes}, err
		}))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := rpc.NewParameterServerClient(conn).SendBarrier(t.Context(), &rpc.BarrierRequest{})
			ended <- err
		}()
		<-entered
		synctest.Wait()
		close(sleeps)
		time.Sleep(time.Hour) // by the clock of the test
		close(wakes)
		close(awake)
		if err := <-ended; err != nil {
			t.Errorf("the call: %v", err)
		}
		conn.Close()
		stop()
		<-served
	})
}

// sleeper is a connection that delivers nothing in either direction between two events, and then all.
type sleeper struct {
	net.Conn
	sleeps, wakes chan struct{}
}

func (s *sleeper) await() {
	select {
	case <-s.sleeps:
		<-s.wakes
	default:
	}
}

func (s *sleeper) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.await()
	return n, err
}

func (s *sleeper) Write(b []byte) (int, error) {
	s.await()
	return s.Conn.Write(b)
}

// mute is a connection that delivers nothing in either direction once silent is closed.
type mute struct {
	net.Conn
	silent, closed chan struct{}
	once           sync.Once
}

func (m *mute) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	select {
	case <-m.silent:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (m *mute) Write(b []byte) (int, error) {
	select {
	case <-m.silent:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// A connection that says nothing is closed soon, and does not keep a server from ending within its grace.
func TestSilentConnections(t *testing.T) {
	for _, ending := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := bufconn.Listen(1 << 10)
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- wire.Serve(ctx, wire.NewServer(nil), l, 2*time.Second) }()
			conn, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan struct{})
			go func() { // the server speaks first
				defer close(read)
				_, _ = io.Copy(io.Discard, conn)
			}()
			synctest.Wait()
			began := time.Now()
			most := 10 * time.Second
			if ending {
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
				most = 2 * time.Second
			}
			<-read
			if took := time.Since(began); took > most {
				t.Errorf("ending %v: closed after %v", ending, took)
			}
			stop()
			if !ending {
				<-served
			}
			conn.Close()
		})
	}
}

// Who listens on a port that another process has is told what to do.
func TestListenOnATakenPort(t *testing.T) {
	l, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := wire.Listen(t.Context(), l.Addr().String()); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "another port") {
		t.Error(err)
	}
}

// A client that knows several addresses speaks to the one at which a server answers, and when that has gone, to another.
func TestSeveralAddresses(t *testing.T) {
	first, second := listen(t), listen(t)
	serve := func(l net.Listener, says error) (end func()) {
		server := wire.NewServer(nil)
		rpc.RegisterParameterServerServer(server, failing(func() error { return says }))
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- wire.Serve(ctx, server, l, 0) }()
		return func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	client := dial(t, first.Addr().String()+","+second.Addr().String())
	call := func(want fault.Kind) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for { // the connection may still be that of the server before
			_, err := client.SendBarrier(ctx, &rpc.BarrierRequest{})
			if err = wire.FromStatus("", err); errors.Is(err, want) {
				return
			} else if !errors.Is(err, fault.Unavailable) {
				t.Fatalf("%v, want %v", err, want)
			}
		}
	}
	end := serve(first, fault.New(fault.Stale, "the first"))
	call(fault.Stale) // the second takes connections, and does not answer yet
	defer serve(second, fault.New(fault.Fenced, "the second"))()
	end()
	call(fault.Fenced)
}
