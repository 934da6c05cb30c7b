package wire_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A caller that knows a peer by name puts it before the address in what the transport reported, and leaves other faults alone.
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

// Of a connection that there is not a message says why, once, in the words of the system.
func TestNoConnection(t *testing.T) {
	port, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	conn, err := wire.Dial(address)
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
