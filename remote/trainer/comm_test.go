package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transports are those of steps.
var transports = []string{"grpc", "tcp", "unix", "shm"}

// carriers are those of the transports that have data connections.
var carriers = map[string]dataplane.Carrier{"tcp": dataplane.TCP, "unix": dataplane.Unix, "shm": dataplane.Shared}

// overEach runs a test of steps over every transport.
func overEach(t *testing.T, f func(t *testing.T, transport string)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) { f(t, transport) })
	}
}

// Trainers that send, declare, receive and complete see every round's values, also those without rows.
func TestCommSync(t *testing.T) { overEach(t, testCommSync) }

func testCommSync(t *testing.T, transport string) {
	sizes := []int64{3, 70_000, 1, 600_000}
	list := servers(t, 2, 3, true, sizes...)
	err := pstest.Parallel(3, func(rank int) error {
		ctx, c, m := t.Context(), commOf(rank, true, list...), newModel(2, sizes...)
		if err := openOver(ctx, c, transport, len(sizes)); err != nil {
			return err
		}
		defer c.Abort()
		c.Receive(atBeginning)
		if err := errors.Join(m.recv(ctx, c), m.check(0)); err != nil {
			return err
		}
		for round := range uint64(4) {
			step := ops.Step{Round: round, Rows: int64(1 + rank)}
			if rank == 1 {
				step.Rows = 0
			}
			c.BeginStep(step, 0, []ranges.Range{{From: 1, To: 2}})
			m.fill(4 * float32(rank)) // the mean of 0 of one row and 8 of three is 6
			if step.Rows > 0 {
				if err := m.send(ctx, c); err != nil {
					return err
				}
			}
			if err := errors.Join(c.SendBarrier(ctx), m.recv(ctx, c), m.check(-6*float32(round+1))); err != nil {
				return err
			}
		}
		return c.Complete(ctx)
	})
	for _, s := range list {
		err = errors.Join(err, s.Wait())
	}
	if err != nil {
		t.Error(err)
	}
}

// An async trainer reads at least what it wrote, although no barrier stands between, and what it wrote takes long to arrive.
func TestCommAsync(t *testing.T) { overEach(t, testCommAsync) }

func testCommAsync(t *testing.T, transport string) {
	last := int64(2_000_000)
	if testing.Short() {
		last = 200_000
	}
	for trainers := 1; trainers <= 2; trainers++ {
		list := servers(t, 2, trainers, false, 5, last+1)
		err := pstest.Parallel(trainers, func(rank int) error {
			ctx, c, m := t.Context(), commOf(rank, false, list...), newModel(2, 5, last+1)
			if err := openOver(ctx, c, transport, 2); err != nil {
				return err
			}
			defer c.Abort()
			c.Receive(atBeginning)
			if err := m.recv(ctx, c); err != nil {
				return err
			}
			for step := range uint64(3) {
				from := int64(step)*10 + int64(rank)*100
				c.BeginStep(ops.Step{Round: step, Lane: uint64(rank), Rows: 2}, 0, []ranges.Range{{From: from, To: from + 2}})
				m.fill(1)
				if err := errors.Join(m.send(ctx, c), m.recv(ctx, c)); err != nil {
					return err
				}
				if got := m.params[1][1].Float32s()[last]; got > -float32(step+1) {
					return fmt.Errorf("trainer %d reads %v after its step %d", rank, got, step)
				}
			}
			return errors.Join(c.rhythm.settle(ctx, c), c.Complete(ctx))
		})
		if err != nil {
			t.Fatalf("%d trainers: %v", trainers, err)
		}
		l, err := wire.Ledger(t.Context(), "pserver 0", list[0].Client, &rpc.LedgerRequest{Job: pstest.Identity.Job, Ranges: true})
		if err != nil || len(l.Passes) != 1 || l.Passes[0].Records != int64(6*trainers) || l.Passes[0].Again != 0 {
			t.Errorf("%d trainers: the ledger is %v, %v", trainers, l, err)
		}
		for _, s := range list {
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a failed step left behind ends when it is drained, and with its context, though the server never answers and more calls are queued than run.
func TestCommDrain(t *testing.T) { overEach(t, testCommDrain) }

func testCommDrain(t *testing.T, transport string) {
	sizes := slices.Repeat([]int64{10}, 3*maxCalls)
	sizes[7] = early / 4
	silent := pstest.New(t, pstest.WithData(t, pstest.Config(1)))
	silent.Serve(pstest.SGD(0, true, 1, sizes...)) // no generation begins
	c, m := commOf(0, true, silent), newModel(1, sizes...)
	open := func() {
		t.Helper()
		if err := openOver(t.Context(), c, transport, len(sizes)); err != nil {
			t.Fatal(err)
		}
	}
	open()
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	if err := m.send(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Abort()
	open()
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.send(ctx, c); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.SendBarrier(ctx); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
	c.Abort()
	c.Abort()
}

// The first failure ends the step at once, names its server, and leaves nothing behind.
func TestCommFailure(t *testing.T) { overEach(t, testCommFailure) }

func testCommFailure(t *testing.T, transport string) {
	ctx := t.Context()
	list := servers(t, 2, 2, true, 4)
	c, m := commOf(0, true, list...), newModel(2, 4)
	if err := openOver(ctx, c, transport, 1); err != nil {
		t.Fatal(err)
	}
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx)); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() { told <- m.recv(ctx, c) }() // waits at both servers for trainer 1
	list[1].Fail(fault.E(fault.NotFinite, fault.Op("sgd")))
	if err := <-told; !errors.Is(err, fault.NotFinite) || !strings.Contains(err.Error(), "pserver 1: op sgd") {
		t.Error(err)
	}
	c.BeginStep(ops.Step{Round: 1, Rows: 1}, 0, nil)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx)); fault.KindOf(err) != fault.NotFinite {
		t.Error(err)
	}
	if err := c.Send(ctx, ops.Message{Name: "w0@GRAD", Server: 2, Value: m.grads[0][0]}); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	if err := c.Recv(ctx, ops.Message{Name: "w0", Server: -1, Value: m.params[0][0]}); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	c.Abort()
}

// confused is a server whose answer to OpenData is wrong.
type confused struct {
	rpc.ParameterServerClient
	change func(*rpc.OpenDataResponse)
}

func (c *confused) OpenData(ctx context.Context, m *rpc.OpenDataRequest, opts ...grpc.CallOption) (*rpc.OpenDataResponse, error) {
	r, err := c.ParameterServerClient.OpenData(ctx, m, opts...)
	if err == nil {
		c.change(r)
	}
	return r, err
}

// A server that has other slices than the trainer is found before anything is written to the wrong place.
func TestServerWithOtherSlices(t *testing.T) {
	for name, change := range map[string]func(*rpc.OpenDataResponse){
		"a gradient of other dims":   func(r *rpc.OpenDataResponse) { r.Send[0].Dims = []int64{2, 2} },
		"a parameter of other dims":  func(r *rpc.OpenDataResponse) { r.Receive[0].Dims[0]++ },
		"a parameter of other bytes": func(r *rpc.OpenDataResponse) { r.Receive[0].Bytes += 4 },
		"a gradient of other bytes":  func(r *rpc.OpenDataResponse) { r.Send[0].Bytes -= 4 },
		"a gradient of another type": func(r *rpc.OpenDataResponse) { r.Send[0].Dtype++ },
		"a gradient less":            func(r *rpc.OpenDataResponse) { r.Send = nil },
		"a parameter more":           func(r *rpc.OpenDataResponse) { r.Receive = append(r.Receive, &rpc.SliceInfo{}) },
		"half a token":               func(r *rpc.OpenDataResponse) { r.Token = r.Token[:8] },
	} {
		ctx := t.Context()
		s := servers(t, 1, 1, true, 4)
		c, m := commOf(0, true, s...), newModel(1, 4)
		c.Servers[0] = &confused{c.Servers[0], change}
		err := openOver(ctx, c, "tcp", 1)
		if err == nil {
			c.BeginStep(ops.Step{Rows: 1}, 0, nil)
			if err = m.send(ctx, c); err == nil {
				if err = c.SendBarrier(ctx); err == nil {
					err = m.recv(ctx, c)
				}
			}
		}
		if !errors.Is(err, fault.ShapeMismatch) && !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		c.Abort()
	}
}

// A server that answers calls and cannot be reached by data connections, as behind a firewall, is spoken to over calls. Another may have a connection.
func TestServerBehindAFirewall(t *testing.T) {
	ctx := t.Context()
	s := servers(t, 2, 1, true, 4)
	c, m := commOf(0, true, s...), newModel(2, 4)
	c.Servers[1] = &confused{c.Servers[1], func(r *rpc.OpenDataResponse) { r.Address = "127.0.0.1:1" }}
	if err := openOver(ctx, c, "tcp", 1); err == nil || len(c.links) != 2 || c.links[0] == nil || c.links[1] != nil {
		t.Fatalf("links %v, %v", c.links, err)
	}
	defer c.Abort()
	for round := range uint64(3) {
		c.BeginStep(ops.Step{Round: round, Rows: 1}, 0, nil)
		m.fill(1)
		if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-float32(round+1))); err != nil {
			t.Fatal(err)
		}
	}
}

// A connection that cannot be mended for a while costs tries, not the step: only the first connection of a generation may fall back to calls.
func TestReconnectTakesSeveralTries(t *testing.T) {
	ctx := t.Context()
	s := servers(t, 1, 1, true, 4)
	c, m := commOf(0, true, s...), newModel(1, 4)
	tries := 0
	c.Servers[0] = &confused{c.Servers[0], func(r *rpc.OpenDataResponse) {
		if tries++; tries > 1 && tries < 6 {
			r.Address = "127.0.0.1:1"
		}
	}}
	if err := openOver(ctx, c, "tcp", 1); err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	c.links[0].disconnect(nil)
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	m.fill(1)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-1)); err != nil || tries != 6 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// With one server the declaration goes with the contribution. Where the connection breaks after it, and the generation ends, the step may have
// committed: the trainer is told so as after every declaration, and does not take it that the step has failed.
func TestGenerationEndsAfterAnEarlyDeclaration(t *testing.T) {
	ctx := t.Context()
	s := servers(t, 1, 1, true, 4)
	c, m := commOf(0, true, s...), newModel(1, 4)
	frozen := false
	c.Data = &dataplane.Dialer{Carrier: dataplane.TCP, Wrap: func(conn net.Conn) net.Conn {
		return &watchedConn{conn, func(when string, _ uint64) {
			if when == "before reading" && c.step.Rows > 0 && !frozen {
				frozen = true
				for start := time.Now(); ; { // the server has applied the round
					if status, err := s[0].Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil || time.Since(start) > pstest.Patience {
						t.Error(err)
						break
					} else if status.Round == 1 {
						break
					}
				}
				if _, err := s[0].Freeze(uint64(pstest.Identity.Generation)); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
		}}
	}}
	if err := openOver(ctx, c, "tcp", 1); err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	c.BeginStep(ops.Step{Rows: 1}, 0, nil)
	if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c)); err != nil {
		t.Errorf("the step fails: %v", err)
	}
	if err := c.Superseded(); !errors.Is(err, fault.Superseded) {
		t.Errorf("the step is told %v", err)
	}
}

// Connections that are cut in the middle of what they carry, either way, cost retries and change nothing.
func TestCommOverCutConnections(t *testing.T) {
	const n = 900_000
	s := servers(t, 1, 1, true, n)[0]
	p := newProxy(t, s, 1<<20, 3<<20, 4<<20, 6<<20)
	conn, err := wire.Dial(p.address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, c, m := t.Context(), &Comm{Sync: true, Deadline: time.Hour,
		Servers: []rpc.ParameterServerClient{rpc.NewParameterServerClient(conn)}}, newModel(1, n)
	c.BeginGeneration(pstest.Identity, 0)
	for round := range uint64(4) {
		c.BeginStep(ops.Step{Round: round, Rows: 1}, 0, nil)
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

// servers starts n servers that hold one parameter of each size.
func servers(t *testing.T, n, trainers int, sync bool, sizes ...int64) []*pstest.Server {
	list := make([]*pstest.Server, n)
	for i := range list {
		cfg := pstest.WithData(t, pstest.Config(trainers))
		cfg.Index, cfg.Servers = i, n
		list[i] = pstest.Start(t, cfg, pstest.SGD(i, sync, 1, sizes...))
	}
	return list
}

func commOf(rank int, sync bool, list ...*pstest.Server) *Comm {
	c := &Comm{Rank: id.Rank(rank), Sync: sync, Deadline: time.Hour}
	for _, s := range list {
		c.Servers = append(c.Servers, s.Client)
	}
	c.BeginGeneration(pstest.Identity, 0)
	return c
}

// openOver opens the data connections of a Comm, for n parameters of each server, unless its rounds go over gRPC.
func openOver(ctx context.Context, c *Comm, transport string, n int) (err error) {
	if transport == "grpc" {
		return nil
	}
	c.Log = slog.New(slog.DiscardHandler)
	if c.Data == nil {
		c.Data = &dataplane.Dialer{Carrier: carriers[transport]}
	}
	if c.links, err = openLinks(ctx, c, trafficProgram(len(c.Servers), n)); err == nil && slices.Contains(c.links, nil) {
		err = errors.New("rounds go over gRPC")
	}
	return err
}

// trafficProgram is a trainer program that sends the gradients of n parameters to each server, and receives the parameters.
func trafficProgram(servers, n int) *program.Program {
	p := program.New()
	for s := range servers {
		var vars, grads, params, epmap []string
		for i := range n {
			vars, epmap = append(vars, fmt.Sprintf("s%dw%d", s, i)), append(epmap, fmt.Sprintf("pserver:%d", s))
			grads, params = append(grads, fmt.Sprintf("w%d@GRAD", i)), append(params, fmt.Sprintf("w%d", i))
		}
		p.Global().Ops = append(p.Global().Ops,
			&program.Op{Type: "send", Inputs: map[string][]string{"X": vars}, Attrs: map[string]program.Attr{"epmap": epmap, "send_varnames": grads}},
			&program.Op{Type: "recv", Outputs: map[string][]string{"Out": vars}, Attrs: map[string]program.Attr{"epmap": epmap, "recv_varnames": params}})
	}
	return p
}

// model is what a trainer of such servers holds: parameters and gradients, by server and number.
type model struct{ params, grads [][]*tensor.Tensor }

func newModel(servers int, sizes ...int64) model {
	var m model
	for range servers {
		var p, g []*tensor.Tensor
		for _, n := range sizes {
			p, g = append(p, pstest.Vector(n)), append(g, pstest.Vector(n))
		}
		m.params, m.grads = append(m.params, p), append(m.grads, g)
	}
	return m
}

// each calls f with every parameter, at the same time, as the ops of a program do.
func (m model) each(f func(server, i int) error) error {
	return pstest.Parallel(len(m.params), func(s int) error { return pstest.Parallel(len(m.params[s]), func(i int) error { return f(s, i) }) })
}

func (m model) send(ctx context.Context, c *Comm) error {
	return m.each(func(s, i int) error {
		return c.Send(ctx, ops.Message{Name: fmt.Sprintf("w%d@GRAD", i), Server: s, Value: m.grads[s][i]})
	})
}

func (m model) recv(ctx context.Context, c *Comm) error {
	err := m.each(func(s, i int) error {
		return c.Recv(ctx, ops.Message{Name: fmt.Sprintf("w%d", i), Server: s, Value: m.params[s][i]})
	})
	return errors.Join(err, c.FetchBarrier(ctx))
}

func (m model) fill(x float32) {
	for _, list := range m.grads {
		for _, g := range list {
			for i := range g.Float32s() {
				g.Float32s()[i] = x
			}
		}
	}
}

// check reports a parameter that is not x everywhere.
func (m model) check(x float32) error {
	return m.each(func(s, i int) error {
		if at := slices.IndexFunc(m.params[s][i].Float32s(), func(v float32) bool { return v != x }); at >= 0 {
			return fmt.Errorf("element %d of w%d of server %d is %v, want %v", at, i, s, m.params[s][i].Float32s()[at], x)
		}
		return nil
	})
}

// proxy passes connections on to a server and cuts each of the first ones after it has carried a number of bytes.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	limits   []int64 // of the connections to come
	cut      int
}

func newProxy(t *testing.T, s *pstest.Server, limits ...int64) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: s.Address, limits: limits}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.carry(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); group.Wait() })
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// carry passes bytes both ways until one end closes or the limit is reached.
func (p *proxy) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	left := int64(1) << 62
	if len(p.limits) > 0 {
		left, p.limits = p.limits[0], p.limits[1:]
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	var once sync.Once
	pass := func(w, r net.Conn) {
		defer once.Do(func() { from.Close(); to.Close() })
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			if err != nil && err != io.EOF || n == 0 {
				return
			}
			p.mu.Lock()
			reached := left >= 0 && left < int64(n)
			if left -= int64(n); reached {
				p.cut++
			}
			p.mu.Unlock()
			if reached {
				return
			}
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}

// BenchmarkSyncRound is what a sync round costs beside computing: one trainer sends the gradients of a model to two servers, declares them, and
// receives the parameters that SGD made of them. The throughput counts the model once; it moves twice.
func BenchmarkSyncRound(b *testing.B) {
	for _, kilobytes := range []int64{64, 1 << 10, 16 << 10, 256 << 10} {
		for _, transport := range transports {
			b.Run(fmt.Sprintf("%dKB/%s", kilobytes, transport), func(b *testing.B) { benchmarkRound(b, transport, kilobytes<<10) })
		}
	}
}

func benchmarkRound(b *testing.B, transport string, bytes int64) {
	const servers, slices = 2, 8 // of each server
	sizes := make([]int64, slices)
	for i := range sizes {
		sizes[i] = bytes / (4 * servers * slices)
	}
	c, m := &Comm{Sync: true, Deadline: time.Hour}, newModel(servers, sizes...)
	for i := range servers {
		cfg := pstest.WithData(b, pstest.Config(1))
		cfg.Index, cfg.Servers = i, servers
		c.Servers = append(c.Servers, pstest.Start(b, cfg, pstest.SGD(i, true, 1, sizes...)).Client)
	}
	c.BeginGeneration(pstest.Identity, 0)
	if err := openOver(b.Context(), c, transport, slices); err != nil {
		b.Fatal(err)
	}
	defer c.Abort()
	m.fill(1)
	round := uint64(0)
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		c.BeginStep(ops.Step{Round: round, Rows: 1}, 0, nil)
		if err := errors.Join(m.send(b.Context(), c), c.SendBarrier(b.Context()), m.recv(b.Context(), c)); err != nil {
			b.Fatal(err)
		}
		round++
	}
	if err := m.check(-float32(round)); err != nil {
		b.Fatal(err)
	}
}
