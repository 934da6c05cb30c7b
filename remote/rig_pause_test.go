package remote_test

import (
	"net"
	"time"
)

// takePause keeps the pause of a process for the test, unless nobody is held any more.
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

// flow lets every role go on that has paused, and whoever pauses from now on.
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
