package remote_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
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
	flowing bool                      // nobody is held in a pause any more
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
	etcd, err := cluster.Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil)
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
			r.t.Fatalf("no end of waiting for %s", what)
		}
	}
}

// gone waits until every child has ended.
func (r *rig) gone() {
	r.t.Helper()
	r.await("the end of every child", func() bool { return r.lives == 0 })
}
