package remote_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
)

// A rig runs jobs whose roles are processes, children of this test binary, and sees what becomes of them. It implements launch.Launcher.
type rig struct {
	t      testing.TB
	port   net.Listener
	etcd   []string
	served sync.WaitGroup

	mu      sync.Mutex
	lives   int                       // connections of children that live
	handles map[string]launch.Handle  // by role, such as "trainer-1"
	held    map[string]chan struct{}  // roles that wait for release
	paused  map[int]chan *net.TCPConn // by pid
	flowing bool                      // every role goes on at once after a pause
	changed chan struct{}             // closed and replaced when lives or handles change
}

// newRig starts a rig with an etcd server of its own. When the test ends, all children must have ended.
func newRig(t testing.TB) *rig {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, port: port, handles: map[string]launch.Handle{}, held: map[string]chan struct{}{}, paused: map[int]chan *net.TCPConn{},
		changed: make(chan struct{})}
	etcd, err := cluster.Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.etcd = etcd.Endpoints()
	r.served.Go(r.serve)
	t.Cleanup(func() {
		r.gone()
		port.Close()
		r.served.Wait()
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// listener starts a listener whose roles the rig launches.
func (r *rig) listener() *remote.Listener {
	r.t.Helper()
	return listener(r.t, remote.WithLauncher(r), remote.WithEtcd(r.etcd...))
}

// serve takes the connections of children.
func (r *rig) serve() {
	for {
		conn, err := r.port.Accept()
		if err != nil {
			return
		}
		var what string
		var pid int
		in := bufio.NewReader(conn)
		if _, err := fmt.Fscanln(in, &what, &pid); err != nil {
			conn.Close()
			continue
		}
		if what == "paused" {
			r.takePause(pid, conn.(*net.TCPConn))
			continue
		}
		r.change(func() { r.lives++ })
		r.served.Go(func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, in) // ends with the child
			r.change(func() { r.lives-- })
		})
	}
}

// change makes a change that others may wait for.
func (r *rig) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until ok, which is called with r.mu held.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// gone waits until every child has ended.
func (r *rig) gone() {
	r.t.Helper()
	r.await("the end of every child", func() bool { return r.lives == 0 })
}

// env is what every child is given.
func (r *rig) env(behaviour string) []string {
	return []string{behaviourEnv + "=" + behaviour, lifeEnv + "=" + r.port.Addr().String(), pauseEnv + "=" + r.port.Addr().String()}
}

// hold makes roles wait for release when they are launched.
func (r *rig) hold(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.held[name] = make(chan struct{})
	}
}

// release launches a role that was held.
func (r *rig) release(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.held[name])
}

// Start implements launch.Launcher.
func (r *rig) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	inner := launch.Processes{Binary: os.Args[0], Env: r.env("role")}
	name := role.Name(spec)
	r.mu.Lock()
	held := r.held[name]
	if spec.Start > 0 {
		held = nil
	}
	r.mu.Unlock()
	var h launch.Handle
	var err error
	if held == nil {
		h, err = inner.Start(ctx, spec, log)
	} else {
		h = startLater(ctx, held, func() (launch.Handle, error) { return inner.Start(ctx, spec, log) })
	}
	if err != nil {
		return nil, err
	}
	r.change(func() { r.handles[name] = h })
	return h, nil
}

// handle returns a role, waiting until it is launched.
func (r *rig) handle(name string) (h launch.Handle) {
	r.t.Helper()
	r.await("the launch of "+name, func() bool {
		h = r.handles[name]
		return h != nil
	})
	return h
}

// signal sends a signal to a role.
func (r *rig) signal(name string, s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.handle(name).Pid(), s); err != nil {
		r.t.Fatalf("%v to %s: %v", s, name, err)
	}
}

// takePause keeps the pause of a process until the test ends it. After flow, the process goes on at once.
func (r *rig) takePause(pid int, conn *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flowing {
		goOn(conn)
		return
	}
	r.pausesOf(pid) <- conn
}

// pauses returns where the pauses of a process arrive.
func (r *rig) pauses(pid int) chan *net.TCPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pausesOf(pid)
}

// pausesOf is pauses. r.mu is held.
func (r *rig) pausesOf(pid int) chan *net.TCPConn {
	if r.paused[pid] == nil {
		r.paused[pid] = make(chan *net.TCPConn, 1000)
	}
	return r.paused[pid]
}

// waitPaused waits until a role has stopped in test_pause.
func (r *rig) waitPaused(name string) *net.TCPConn {
	r.t.Helper()
	select {
	case conn := <-r.pauses(r.handle(name).Pid()):
		return conn
	case <-time.After(patience):
		r.t.Fatalf("%s does not pause", name)
	}
	return nil
}

// resume lets a role go on, and on at every later pause until it ends.
func (r *rig) resume(name string, conn *net.TCPConn) {
	h := r.handle(name)
	pauses := r.pauses(h.Pid())
	ended := make(chan struct{})
	r.served.Go(func() { defer close(ended); _ = h.Wait() })
	r.served.Go(func() {
		for {
			goOn(conn)
			select {
			case conn = <-pauses:
			case <-ended:
				return
			}
		}
	})
}

// flow lets all roles go on that have paused, and all that pause later.
func (r *rig) flow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flowing = true
	for _, pauses := range r.paused {
		for len(pauses) > 0 {
			goOn(<-pauses)
		}
	}
}

// goOn ends a pause.
func goOn(conn net.Conn) {
	_, _ = conn.Write([]byte{1})
	conn.Close()
}

// The op test_pause copies. In a child of a rig its gradient stops until the rig lets it go on: what was computed behind it has been sent by then,
// and what lies before it has not.
func init() {
	ops.Register(ops.Def{
		Type:    "test_pause",
		Doc:     "Copies float32, and waits for a test in the backward pass.",
		Inputs:  []ops.Slot{{Name: "X"}},
		Outputs: []ops.Slot{{Name: "Out"}},
		Attrs:   []ops.Attr{{Name: "waits", Default: int32(0)}},
		Infer:   func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("test_pause")
			op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
			op.SetAttr("waits", int32(1))
			return []*program.Op{op}, nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out, waits := b.In("X"), b.Out("Out"), b.Int("waits") == 1
			return func(ctx context.Context) error {
				copy(out.Float32s(), x.Float32s())
				if address := os.Getenv(pauseEnv); waits && address != "" {
					return pause(ctx, address)
				}
				return nil
			}, nil
		},
	})
}

// pauses appends test_pause to a model.
func pauses(x layers.Variable) layers.Variable {
	return layers.Op(x.Model(), "test_pause", layers.In{"X": {x}}, nil).One("Out")
}

// pause tells a rig that this process has stopped, and waits for its answer.
func pause(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	fmt.Fprintln(conn, "paused", os.Getpid())
	_, err = conn.Read(make([]byte, 1))
	return err
}
