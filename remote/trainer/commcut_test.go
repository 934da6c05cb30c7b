package trainer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// The first failure ends the step at once, names its server, and leaves nothing behind.
func TestCommFailure(t *testing.T) {
	ctx := t.Context()
	list := servers(t, 2, 2, true, 4)
	c, m := commOf(0, true, list...), newModel(2, 4)
	c.Begin(ops.Step{Rows: 1}, 0, nil)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx)); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- m.recv(ctx, c) }() // waits at both servers for trainer 1
	list[1].Fail(fault.E(fault.NotFinite, fault.Op("sgd")))
	if err := <-told; !errors.Is(err, fault.NotFinite) || !strings.Contains(err.Error(), "pserver 1: op sgd") {
		t.Error(err)
	}
	c.Begin(ops.Step{Round: 1, Rows: 1}, 0, nil)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx)); fault.KindOf(err) != fault.NotFinite {
		t.Error(err)
	}
	if err := c.Send(ctx, ops.Message{Name: "w0@GRAD", Server: 2, Value: m.grads[0][0]}); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	if err := c.Recv(ctx, ops.Message{Name: "w0", Server: -1, Value: m.params[0][0]}); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	c.Drain()
}

// Connections that are cut in the middle of what they carry, either way, cost attempts and change nothing.
func TestCommOverCutConnections(t *testing.T) {
	const n = 900_000
	s := servers(t, 1, 1, true, n)[0]
	p := newProxy(t, s, 1<<20, 3<<20, 4<<20, 6<<20)
	conn, err := wire.Dial(p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, c, m := t.Context(), &Comm{Sync: true, Deadline: time.Hour,
		Servers: []rpc.ParameterServerClient{rpc.NewParameterServerClient(conn)}}, newModel(1, n)
	c.Enter(rig.Identity, 0)
	for round := range uint64(4) {
		c.Begin(ops.Step{Round: round, Rows: 1}, 0, nil)
		m.fill(1)
		if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-float32(round+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Complete(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	if cuts := p.cuts(); cuts != 4 {
		t.Errorf("%d connections were cut, want 4", cuts)
	}
}
