package trainer

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// A frame that does not answer what the trainer has sent ends the step, also where its checksums are right.
func TestAnswersThatDoNotFit(t *testing.T) {
	head := func(k dataplane.Kind, round id.Round) dataplane.Head {
		return dataplane.Head{Kind: k, Round: round, Generation: pstest.Identity.Generation}
	}
	ack := func(c *dataplane.Conn) error { return c.WriteMessage(head(dataplane.Ack, 0), nil) }
	params := func(round id.Round, slices ...int) func(c *dataplane.Conn) error {
		return func(c *dataplane.Conn) error {
			return c.WriteSlices(head(dataplane.Params, round), slices, func(int) ([]byte, error) { return make([]byte, 16), nil })
		}
	}
	for name, answers := range map[string][]func(c *dataplane.Conn) error{
		"an ack of another round":       {func(c *dataplane.Conn) error { return c.WriteMessage(head(dataplane.Ack, 1), nil) }},
		"an ack of another generation":  {func(c *dataplane.Conn) error { return c.WriteMessage(dataplane.Head{Kind: dataplane.Ack}, nil) }},
		"params in place of an ack":     {params(0, 0, 1)},
		"an ack in place of params":     {ack, ack},
		"params of the round before":    {ack, params(0, 0, 1)},
		"params with a slice missing":   {ack, params(1, 0)},
		"params with a slice too many":  {ack, params(1, 0, 1, 2)},
		"params with one slice doubled": {ack, params(1, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := pstest.WithData(t, pstest.Config(1)) // its port is the lying one
			liar, err := cfg.Data.Offer(dataplane.Layout{}, func(_ context.Context, conn *dataplane.Conn) {
				for _, answer := range answers {
					if answer(conn) != nil {
						return
					}
				}
				_, _ = conn.ReadHead()
			})
			if err != nil {
				t.Fatal(err)
			}
			c, m := commOf(0, true, servers(t, 1, 1, true, 4, 4)...), newModel(1, 4, 4)
			c.Servers[0] = &confused{c.Servers[0], func(r *rpc.OpenDataResponse) { r.Address, r.Token = cfg.Data.Address(), liar.Token[:] }}
			defer c.Abort()
			ctx := bounded(t)
			if err := openOver(ctx, c, "tcp", 2); err != nil {
				t.Fatal(err)
			}
			c.BeginStep(ops.Step{Rows: 1}, 0, nil)
			err = errors.Join(m.send(ctx, c))
			if err == nil {
				err = c.SendBarrier(ctx)
			}
			if err == nil {
				err = m.recv(ctx, c)
			}
			if !errors.Is(err, fault.Corrupt) {
				t.Error(err)
			}
		})
	}
}

// After the acknowledgement a broken connection costs a declaration and the parameters: the contribution is not sent again.
func TestNothingIsSentAgainAfterItsAcknowledgement(t *testing.T) {
	ctx := t.Context()
	c, m := commOf(0, true, servers(t, 2, 1, true, 4)...), newModel(2, 4)
	var mu sync.Mutex
	var data, declarations int
	c.Data = &dataplane.Dialer{Carrier: dataplane.TCP, Wrap: func(conn net.Conn) net.Conn {
		return &watchedConn{conn, func(when string, _ uint64) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case when == "before writing data":
				data++
			case strings.HasSuffix(when, "before writing declare"):
				if declarations++; declarations == 1 {
					conn.Close()
				}
			}
		}}
	}}
	if err := openOver(ctx, c, "tcp", 1); err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	m.fill(1)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-1)); err != nil {
		t.Fatal(err)
	}
	if data != 2 || declarations != 3 {
		t.Errorf("%d frames of data and %d declarations were sent to 2 servers, want 2 and 3", data, declarations)
	}
}

// A generation that ends before a step is declared fails the step, also after steps that were declared.
func TestGenerationEndsBeforeADeclaration(t *testing.T) {
	overEach(t, func(t *testing.T, transport string) {
		ctx, list := t.Context(), servers(t, 2, 1, true, 4)
		c, m := commOf(0, true, list...), newModel(2, 4)
		if err := openOver(ctx, c, transport, 1); err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		c.BeginStep(ops.Step{Rows: 1}, 0, nil)
		m.fill(1)
		if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-1)); err != nil {
			t.Fatal(err)
		}
		if _, err := list[1].Freeze(uint64(pstest.Identity.Generation)); err != nil {
			t.Fatal(err)
		}
		c.BeginStep(ops.Step{Round: 1, Rows: 1}, 0, nil)
		if err := m.send(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := c.SendBarrier(ctx); !errors.Is(err, fault.Superseded) || c.Superseded() != nil {
			t.Errorf("the barrier is told %v, and then %v", err, c.Superseded())
		}
	})
}
