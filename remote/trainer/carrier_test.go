package trainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// A carrierFault is what happens to the first data connection to server 0, at one byte of one direction.
type carrierFault struct {
	action  string // cut: the connection ends before the byte; flip: a bit of it changes; delay: it waits for an event; stop: nothing moves any more
	written bool   // the byte is one that the trainer writes, else one that it reads
	at      int
	reached func() // is called there, once
}

// A faultyConn is a data connection with a carrierFault.
type faultyConn struct {
	net.Conn
	fault         *carrierFault
	wrote, read   int
	once, stopped sync.Once
	ended         chan struct{} // closed when the connection is closed, or its deadline is over
}

func (c *faultyConn) Write(b []byte) (int, error) {
	b, err := c.pass(b, &c.wrote, c.fault.written)
	if err != nil {
		_, _ = c.Conn.Write(b)
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	passed, broken := c.pass(b[:n], &c.read, !c.fault.written)
	if broken != nil {
		if len(passed) > 0 {
			return len(passed), nil // the next read fails
		}
		return 0, broken
	}
	return copy(b, passed), err
}

// pass returns what is left of b, which begins at byte *at of its direction, and an error when the connection has ended in it.
func (c *faultyConn) pass(b []byte, at *int, here bool) ([]byte, error) {
	k := c.fault.at - *at
	if *at += len(b); !here || k >= len(b) || k < 0 && c.fault.action != "stop" {
		return b, nil
	}
	c.once.Do(c.fault.reached)
	switch c.fault.action {
	case "flip":
		b = slices.Clone(b)
		b[k] ^= 1 << (c.fault.at % 8)
	case "cut":
		c.Close()
		return b[:k], net.ErrClosed
	case "stop":
		<-c.ended
		return b[:max(k, 0)], os.ErrDeadlineExceeded
	}
	return b, nil
}

func (c *faultyConn) Close() error {
	c.stopped.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

func (c *faultyConn) SetDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		c.stopped.Do(func() { close(c.ended) })
	}
	return c.Conn.SetDeadline(t)
}

// A carrierRig trains round after round on some servers, as the only trainer. Each round, or async step, subtracts 1 from every parameter.
type carrierRig struct {
	t     *testing.T
	async bool
	over  dataplane.Carrier
	list  []*pstest.Server
	sizes []int64
	at    []string // addresses of the data plane of server 0; guarded by mu
	mu    sync.Mutex
	round uint64
}

// train trains two rounds with a fault, and checks the values. It returns how many bytes the connection with the fault has carried, and whether the
// fault was reached.
func (r *carrierRig) train(f carrierFault) (wrote, read int, reached bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	f.reached = func() {
		reached = true
		switch f.action {
		case "delay": // nobody else is held up
			if _, err := r.list[0].Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil {
				r.t.Error(err)
			}
		case "stop":
			cancel()
		}
	}
	var faulty *faultyConn
	wrap := func(conn net.Conn) net.Conn {
		r.mu.Lock()
		defer r.mu.Unlock()
		if faulty != nil || !slices.Contains(r.at, conn.RemoteAddr().String()) {
			return conn
		}
		faulty = &faultyConn{Conn: conn, fault: &f, ended: make(chan struct{})}
		return faulty
	}
	last, m := r.round+2, newModel(len(r.list), r.sizes...)
	err := r.rounds(ctx, &dataplane.Dialer{Carrier: r.over, Wrap: wrap}, m, last, true)
	if f.action == "stop" && reached {
		if err == nil {
			r.t.Errorf("%+v: the step ends well", f)
		}
		err = r.rounds(r.t.Context(), &dataplane.Dialer{Carrier: r.over}, m, last, false)
	}
	if err == nil && r.async {
		err = r.checkLedger(last)
	}
	if err != nil {
		r.t.Fatalf("%s of byte %d, written %v: %v", f.action, f.at, f.written, err)
	}
	return faulty.wrote, faulty.read, reached
}

// rounds trains up to a round. It begins with the parameters, unless a round was given up that may count: then they are those before or after it.
func (r *carrierRig) rounds(ctx context.Context, d *dataplane.Dialer, m model, last uint64, begin bool) error {
	c := commOf(0, !r.async, r.list...)
	c.Data = d
	c.Servers[0] = &confused{c.Servers[0], func(answer *rpc.OpenDataResponse) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at = []string{answer.Address, answer.Local}
	}}
	defer c.Abort()
	if err := openOver(ctx, c, "tcp", len(r.sizes)); err != nil {
		return err
	}
	c.BeginGeneration(pstest.Identity, id.Round(r.round))
	if m.fillParams(77); begin {
		if err := errors.Join(m.recv(ctx, c), m.check(-float32(r.round))); err != nil {
			return err
		}
	}
	for r.round < last {
		c.BeginStep(ops.Step{Round: r.round, Rows: 1}, 0, []ranges.Range{{From: int64(r.round), To: int64(r.round) + 1}})
		m.fill(1)
		if err := m.send(ctx, c); err != nil {
			return err
		}
		if err := c.SendBarrier(ctx); err != nil {
			return err
		}
		m.fillParams(77)
		if err := errors.Join(m.recv(ctx, c), m.check(-float32(r.round+1))); err != nil {
			return err
		}
		m.fill(1e6) // all servers have the contribution
		if err := c.rhythm.settle(ctx, c); err != nil {
			return err
		}
		r.round++
	}
	return nil
}

// checkLedger checks that the ledger has each step once.
func (r *carrierRig) checkLedger(steps uint64) error {
	l, err := wire.Ledger(bounded(r.t), "pserver 0", r.list[0].Client, &rpc.LedgerRequest{Job: pstest.Identity.Job})
	if err == nil && (len(l.Passes) != 1 || l.Passes[0].Records != int64(steps) || l.Passes[0].Again != 0) {
		err = fmt.Errorf("after %d steps the ledger is %v", steps, l)
	}
	return err
}

func (m model) fillParams(x float32) { model{grads: m.params}.fill(x) }

// Whatever happens to a data connection at whatever byte of the hello, the welcome, and the heads, lists and bodies of each kind of frame: the
// parameters after each round are those of a run that nothing disturbs, and a step that is given up ends.
func TestFaultsOfTheCarrier(t *testing.T) {
	for _, c := range []struct {
		action  string
		over    string
		servers int
		stride  int // how many bytes lie between two cases
	}{
		{"cut", "tcp", 1, 3}, {"cut", "tcp", 2, 5}, {"cut", "unix", 2, 11}, {"cut", "shm", 1, 5}, {"cut", "shm", 2, 7},
		{"flip", "tcp", 1, 3}, {"flip", "tcp", 2, 5}, {"flip", "unix", 2, 11}, {"flip", "shm", 1, 5}, {"flip", "shm", 2, 7},
		{"stop", "tcp", 1, 3}, {"stop", "tcp", 2, 5}, {"stop", "unix", 2, 11}, {"stop", "shm", 1, 5}, {"stop", "shm", 2, 7},
		{"delay", "tcp", 1, 5}, {"delay", "shm", 1, 7},
		{"async cut", "tcp", 1, 5}, {"async cut", "tcp", 2, 7}, {"async cut", "unix", 2, 17}, {"async cut", "shm", 2, 5},
		{"async flip", "tcp", 2, 5}, {"async flip", "shm", 2, 7}, {"async stop", "tcp", 2, 7}, {"async stop", "shm", 1, 7},
		{"async delay", "tcp", 1, 7}, {"async delay", "shm", 2, 17},
	} {
		if testing.Short() {
			c.stride *= 10
		}
		t.Run(fmt.Sprintf("%s, %s, %d servers", c.action, c.over, c.servers), func(t *testing.T) {
			t.Parallel()
			r := &carrierRig{t: t, over: carriers[c.over], sizes: []int64{3, 0, 5}}
			c.action, r.async = strings.CutPrefix(c.action, "async ")
			r.list = servers(t, c.servers, 1, !r.async, r.sizes...)
			wrote, read, _ := r.train(carrierFault{action: "none", at: 1 << 30})
			for _, written := range []bool{true, false} {
				total := read
				if written {
					total = wrote
				}
				if total < 4*dataplane.HeadBytes {
					t.Fatalf("only %d bytes", total)
				}
				for at := 0; at < total; at += c.stride {
					if _, _, reached := r.train(carrierFault{action: c.action, written: written, at: at}); !reached {
						t.Errorf("byte %d of %d was not reached", at, total)
					}
				}
			}
		})
	}
}

// A slice that needs several frames, sent while the step still computes, survives faults in any of them, both ways.
func TestFaultsInLargeSlices(t *testing.T) {
	for name, over := range carriers {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, async %v", name, async), func(t *testing.T) { faultsInLargeSlices(t, over, async) })
		}
	}
}

func faultsInLargeSlices(t *testing.T, over dataplane.Carrier, async bool) {
	r := &carrierRig{t: t, over: over, async: async, sizes: []int64{5, 1_100_000, 70_000}}
	r.list = servers(t, 2, 1, !async, r.sizes...)
	wrote, read, _ := r.train(carrierFault{action: "none", at: 1 << 30})
	actions := []string{"cut", "flip", "stop", "cut", "flip"}
	if testing.Short() {
		actions = actions[1:2]
	}
	for i, action := range actions {
		for _, written := range []bool{true, false} {
			total := read
			if written {
				total = wrote
			}
			r.train(carrierFault{action: action, written: written, at: 100 + i*total/5})
		}
	}
}
