package wire_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A peer that is paused in the middle of a call, with its connection open, is noticed in the time that the package promises.
func TestSilentPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		server := wire.NewServer()
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

// mute is a connection from which nothing comes any more, and where what is written vanishes, once silent is closed.
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
