package trainer

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
)

// A carrier that was asked for and does not work fails with a reason and a way out. No other takes its place.
func TestExplicitCarrierIsNotReplaced(t *testing.T) {
	for _, name := range []string{"unix", "shm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := commOf(0, true, servers(t, 1, 1, true, 4)...)
			c.Servers[0] = &confused{c.Servers[0], func(r *rpc.OpenDataResponse) { r.Host = "another" }}
			c.Log, c.Data = slog.New(slog.DiscardHandler), &dataplane.Dialer{Carrier: carriers[name]}
			defer c.Abort()
			ls, err := openLinks(t.Context(), c, trafficProgram(1, 1))
			if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--transport auto") {
				t.Errorf("links %v, %v", ls, err)
			}
		})
	}
}

// A carrier that was asked for is tried again where it may work later: at first, while the server still has the memory of an earlier connection, and when
// it has worked before.
func TestExplicitCarrierIsTriedAgain(t *testing.T) {
	c, m := commOf(0, true, servers(t, 1, 1, true, 4)...), newModel(1, 4)
	opened := 0
	c.Servers[0] = &confused{c.Servers[0], func(r *rpc.OpenDataResponse) {
		if opened++; opened%(dialsExplicit-2) != 0 {
			r.Host = "another"
		}
	}}
	var conn net.Conn
	c.Data = &dataplane.Dialer{Carrier: dataplane.Shared, Wrap: func(raw net.Conn) net.Conn { conn = raw; return raw }}
	defer c.Abort()
	if err := openOver(t.Context(), c, "shm", 1); err != nil {
		t.Fatal(err)
	}
	for round := range uint64(2) {
		c.BeginStep(ops.Step{Rows: 1, Round: round}, 0, nil)
		m.fill(1)
		if err := errors.Join(m.send(t.Context(), c), c.SendBarrier(t.Context()), m.recv(t.Context(), c), m.check(-float32(round+1))); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if opened != 2*(dialsExplicit-2) {
		t.Errorf("%d connections were asked for", opened)
	}
}
