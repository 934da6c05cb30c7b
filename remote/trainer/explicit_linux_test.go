package trainer

import (
	"bytes"
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

// Where nobody has asked for a carrier, TCP takes the place of shared memory that cannot be had.
func TestAutoTakesTCPWithoutSharedMemory(t *testing.T) {
	c := commOf(0, true, servers(t, 1, 1, true, 4)...)
	opened := 0
	c.Servers[0] = &confused{c.Servers[0], func(r *rpc.OpenDataResponse) {
		if opened++; opened == 1 { // the memory that the server makes has another size
			info := r.Receive[0]
			n := info.Bytes/4 + 1000
			info.Dims, info.Bytes = []int64{n}, 4*n
		}
	}}
	var said bytes.Buffer
	c.Log, c.Data = slog.New(slog.NewTextHandler(&said, nil)), &dataplane.Dialer{}
	defer c.Abort()
	ls, err := openLinks(t.Context(), c, trafficProgram(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer ls.close()
	if s := said.String(); strings.Count(s, "level=WARN") != 1 || !strings.Contains(s, "memory cannot be shared: got ") {
		t.Errorf("the log says %s", s)
	}
	if got := ls.transports(1); opened != 2 || got["tcp"] != 1 {
		t.Errorf("after %d connections the trainer has links over %v", opened, got)
	}
}
