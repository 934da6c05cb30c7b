package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// A coordinator is paused anywhere in its work, another one takes its place, and the first one is resumed: what it does then has no effect, whether
// its lease has ended by its own clock, or only etcd knows of that, and whether or not the other one has committed anything yet.
func TestCoordinatorIsPausedAndReplaced(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	for i, c := range []struct {
		after   int // commits
		unaware bool
		idle    bool // the other one commits later
	}{{1, false, false}, {17, false, false}, {5, true, false}, {5, true, true}} {
		h := &home{T: t, prefix: Prefix(fmt.Sprint("replaced-", i)), handle: func(prefix string, lease time.Duration) (Registry, error) {
			return Open(t.Context(), Config{Endpoints: server.Endpoints(), Prefix: prefix, Lease: lease})
		}}
		lease, end := childLease, " done"
		if c.unaware {
			lease, end = longLease, ""
		}
		old := startChild(t, h.prefix, server.Endpoints(), lease)
		old.commits(c.after)
		old.signal(syscall.SIGSTOP)
		r := h.open()
		if c.unaware {
			h.ok(r.Bury(bounded(t), coordinator, 0))
		}
		s := r.State(h.member(r.LeadCoordinator(bounded(t), "parent:1")))
		before, err := s.Load(t.Context())
		h.ok(err)
		young := []Change{{"young", []byte("1")}}
		if !c.idle {
			h.ok(s.Commit(t.Context(), young))
		}
		old.signal(syscall.SIGCONT)
		last, why := old.end()
		// Paused within a commit: nobody told it what became of it.
		if want := fault.Fenced.String() + end; why != want && why != fault.Unavailable.String()+end {
			t.Errorf("%+v: the old coordinator ended with %q, want %q", c, why, want)
		}
		if c.idle {
			h.ok(s.Commit(t.Context(), young))
		}
		h.entries(s, map[string]string{"number": string(before["number"]), "young": "1"})
		var told, kept int
		fmt.Sscan(last, &told)
		fmt.Sscan(string(before["number"]), &kept)
		if kept < c.after || told > kept {
			t.Errorf("%+v: number %d is kept, %d was committed by all accounts", c, kept, told)
		}
		if t.Failed() {
			return
		}
	}
}

// A coordinator is paused for longer than its lease while something keeps the lease alive in etcd. It cannot know that, and must not commit: its
// lease is over.
func TestCoordinatorIsPausedForItsLease(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	prefix := Prefix("overslept")
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), Logger: zapTo(context.Background(), nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := startChild(t, prefix, server.Endpoints(), childLease, childPause+"=3")
	c.commits(3)
	lock := func() (revision int64, lease clientv3.LeaseID) {
		r, err := client.Get(bounded(t), prefix+lockKey)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return r.Kvs[0].CreateRevision, clientv3.LeaseID(r.Kvs[0].Lease)
	}
	fence, lease := lock()
	renewals, err := client.KeepAlive(bounded(t), lease)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range renewals {
		}
	}()
	number := func() string {
		r, err := client.Get(bounded(t), prefix+stateKey+"number")
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return string(r.Kvs[0].Value)
	}
	// A lease of the same duration that begins now and that nobody renews tells when it is time.
	hourglass(t, client, childLease)
	before := number()
	c.signal(syscall.SIGCONT)
	_, why := c.end()
	if !strings.HasSuffix(why, " done") {
		t.Errorf("the coordinator ended with %q before Done was closed", why)
	}
	if still, _ := lock(); still != fence {
		t.Error("the lock is not what it was: nothing is shown")
	}
	if after := number(); after != before {
		t.Errorf("number %s was committed after the lease, %s before", after, before)
	}
}

// hourglass returns when etcd has ended a lease of the duration.
func hourglass(t *testing.T, client *clientv3.Client, duration time.Duration) {
	t.Helper()
	ctx := bounded(t)
	lease, err := client.Grant(ctx, int64(duration/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	put, err := client.Put(ctx, "/hourglass", "", clientv3.WithLease(lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range client.Watch(watching, "/hourglass", clientv3.WithRev(put.Header.Revision+1)) {
		if len(r.Events) > 0 {
			return
		}
	}
	t.Fatal(errors.Join(ctx.Err(), errors.New("the lease never ended")))
}
