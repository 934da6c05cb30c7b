package wire_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// When its context ends, Serve lets a call in flight end and returns after its handler has.
func TestServeLetsCallsFinish(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	server := wire.NewServer()
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
	server := wire.NewServer()
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
	err := wire.Serve(t.Context(), wire.NewServer(), l, 0)
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
	server := wire.NewServer()
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
