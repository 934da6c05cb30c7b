package listen

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A change of the number of pservers waits while another one is under way and while its pservers end, says why, and begins then. A later one takes its place.
func TestWishes(t *testing.T) {
	j := &Job{ID: "j"}
	j.limits.Start = time.Hour
	j.placing.now = &placement{plan: &plan{}}
	c := &jobRun{job: j, machine: supervise.New(supervise.Policy{PServers: 2, MaxRestarts: 3}, 1), decided: make(chan struct{}), over: make(chan struct{})}
	step := func(e supervise.Event) {
		t.Helper()
		j.withLock(func() {
			if _, err := c.machine.Step(time.Second, e); err != nil {
				t.Fatal(err)
			}
			wake(c)
		})
	}
	wish := func(servers int) (w *wish, answer chan error) {
		w, answer = enterWish(j, servers), make(chan error, 1)
		go func() { answer <- w.await(t.Context(), c) }()
		return w, answer
	}
	why := func(want string) {
		t.Helper()
		j.withLock(func() {
			if w := wishWaits(c); (w == nil) != (want == "") || !strings.Contains(w.GetLastError(), want) || w != nil && !w.Until.IsValid() {
				t.Errorf("the listener waits for %v, want %q", w, want)
			}
		})
	}
	step(supervise.Began{})
	if _, answer := wish(3); <-answer != nil {
		t.Error("a job that can change does not")
	}
	why("")
	step(supervise.Scaled{Servers: 3})
	_, first := wish(2)
	why("changing to 3 pservers")
	w, second := wish(4)
	if err := <-first; !errors.Is(err, fault.Superseded) || !strings.Contains(err.Error(), "4 pservers") {
		t.Errorf("a change that another one follows: %v", err)
	}
	j.withLock(func() { j.placing.changes = true })
	step(supervise.Moved{Number: 1})
	why("under way")
	j.withLock(func() { j.placing.changes = false; wake(c) })
	if err := <-second; err != nil {
		t.Error(err)
	}
	leaveWish(j, w)

	step(supervise.Scaled{Servers: 2})
	step(supervise.Moved{Number: 2})
	_, third := wish(3)
	why("pserver 2 that is ending")
	step(supervise.Exited{Member: cluster.Member{Role: job.Role_PSERVER, Index: 2}})
	if err := <-third; err != nil {
		t.Error(err)
	}

	step(supervise.Scaled{Servers: 3})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.limits.Start = 0
	for name, ctx := range map[string]context.Context{"a caller who goes": ctx, "a wait that is too long": t.Context()} {
		if err := enterWish(j, 2).await(ctx, c); !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "changing to 3 pservers") {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(c.over)
	j.limits.Start = time.Hour
	if err := enterWish(j, 2).await(t.Context(), c); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a job that ends: %v", err)
	}
}
