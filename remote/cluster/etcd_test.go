package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
	"github.com/edl-go/edl/remote/id"
)

func on(t *testing.T, servers *etcdtest.Cluster, job string) *home {
	return &home{T: t, prefix: Prefix(job), handle: openAt(t, servers.Endpoints)}
}

// All renewals of a lease go over one stream. A renewal that takes too long, or a stream that breaks, costs that stream, and the next one gets another.
func TestRenewalsShareAStream(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Start(t, 1, etcdtest.Options{})
	store, err := connect(t.Context(), Config{Endpoints: servers.Endpoints(), Lease: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	granted, err := store.client.Grant(bounded(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	l := &etcdLease{store: store, number: granted.ID}
	renew := func() any {
		t.Helper()
		if seconds, err := l.renewWithin(bounded(t), time.Minute); err != nil || seconds != 60 || l.stream == nil {
			t.Fatalf("renewed for %d seconds over %v, %v", seconds, l.stream, err)
		}
		return l.stream
	}
	first := renew()
	for range 5 {
		if renew() != first {
			t.Fatal("another renewal goes over another stream")
		}
	}
	if _, err := l.renewWithin(bounded(t), 0); err == nil || l.stream != nil {
		t.Errorf("a renewal without time has a stream, %v", err)
	}
	second := renew()
	l.hangUp()
	if _, err := l.renewWithin(bounded(t), time.Minute); err == nil || l.stream != nil {
		t.Errorf("a renewal on a broken stream has a stream, %v", err)
	}
	if third := renew(); third == second || second == first {
		t.Error("a stream that has ended is used again")
	}
	l.hangUp()
}

// The leader of three servers dies while a coordinator commits: it goes on, is still the coordinator, and nothing is lost or done twice.
func TestLeaderOfEtcdDies(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Start(t, 3, etcdtest.Options{})
	h := on(t, servers, "orphaned")
	r := h.open()
	leader := h.member(r.LeadCoordinator(t.Context(), "host:1"))
	s := r.State(leader)
	const kills, commits = 3, 20
	counts, ended := make(chan int), make(chan error, 1)
	go func() {
		defer close(counts)
		for i := range kills * commits {
			if err := s.Commit(bounded(t), []Change{{"count", []byte(fmt.Sprint(i))}, {fmt.Sprint("entry/", i), []byte{1}}}); err != nil {
				ended <- err
				return
			}
			counts <- i
		}
		ended <- nil
	}()
	down := -1
	for i := range counts {
		if i%commits != commits/2 {
			continue
		}
		if down >= 0 {
			servers.Restart(down)
		}
		down = servers.Leader()
		servers.Kill(down)
	}
	if err := expect(t, ended); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Load(bounded(t))
	h.ok(err)
	if len(entries) != kills*commits+1 || string(entries["count"]) != fmt.Sprint(kills*commits-1) {
		t.Errorf("%d entries, count %s", len(entries), entries["count"])
	}
	select {
	case <-leader.Done():
		t.Error("the coordinator has lost its lease")
	default:
	}
}

// While all servers are down, calls end at their deadline and say why; when they are back, the calls succeed.
func TestEtcdIsAway(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Start(t, 3, etcdtest.Options{})
	h := on(t, servers, "away")
	r := h.open()
	leader := h.member(r.LeadCoordinator(t.Context(), "host:1"))
	s := r.State(leader)
	h.ok(s.Commit(t.Context(), []Change{{"a", []byte("1")}}))
	addresses, err := r.WatchAddress(t.Context(), server0)
	h.ok(err)
	until(h, addresses, "")
	for i := range 3 {
		servers.Kill(i)
	}
	next := []Change{{"b", []byte("2")}}
	for name, call := range map[string]func(context.Context) error{
		"commit": func(ctx context.Context) error { return s.Commit(ctx, next) },
		"live":   func(ctx context.Context) error { _, err := r.Live(ctx); return err },
		"wait":   func(ctx context.Context) error { _, err := r.Server(ctx, 0); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "answer of the store") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It is not known whether the commit was made: no other commit may follow it.
	if err := s.Commit(t.Context(), []Change{{"c", []byte("3")}}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("another commit: %v", err)
	}
	going := make(chan error, 1)
	go func() { going <- s.Commit(bounded(t), next) }()
	waiting := make(chan error, 1)
	go func() {
		_, err := r.Server(bounded(t), 0)
		waiting <- err
	}()
	for i := range 3 {
		servers.Restart(i)
	}
	if err := expect(t, going); err != nil {
		t.Fatal(err)
	}
	h.entries(s, map[string]string{"a": "1", "b": "2"})
	h.member(h.open().JoinServer(bounded(t), 0, "host:2"))
	if err := expect(t, waiting); err != nil {
		t.Error(err)
	}
	until(h, addresses, "host:2")
}

// While etcd is away for longer than a lease, nobody is lost: not who has died meanwhile, and not who lives. When it is back, the living have their
// leases, and the dead are declared lost.
func TestLeasesWithoutEtcd(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} { // a server that was paused ends all leases when it goes on
		servers := etcdtest.Start(t, 1, etcdtest.Options{})
		h := on(t, servers, "alone")
		const lease = 2 * time.Second
		r, dying := h.openWith(Config{Lease: lease}), h.openWith(Config{Lease: lease})
		leader := h.member(r.LeadCoordinator(t.Context(), "host:1"))
		server := h.member(r.JoinServer(t.Context(), 0, "host:2"))
		h.member(dying.JoinTrainer(t.Context(), 0))
		s := r.State(leader)
		h.ok(s.Commit(t.Context(), []Change{{"a", []byte("1")}}))
		lost, err := r.WatchLost(t.Context())
		h.ok(err)
		if paused {
			servers.Pause(0)
		} else {
			servers.Kill(0)
		}
		eventually(t, "word that etcd is away", func() bool { since, _ := r.Silent(); return !since.IsZero() })
		going := make(chan error, 1)
		go func() { going <- s.Commit(bounded(t), []Change{{"b", []byte("2")}}) }()
		h.ok(dying.Close()) // nobody renews its lease any more
		over := time.NewTimer(2 * lease)
		select {
		case m := <-lost:
			t.Fatalf("%v is lost while etcd is away", m)
		case <-leader.Done():
			t.Fatal("the coordinator is lost while etcd is away")
		case <-server.Done():
			t.Fatal("the pserver is lost while etcd is away")
		case <-over.C:
		}
		if paused {
			servers.Resume(0)
		} else {
			servers.Restart(0)
		}
		h.ok(expect(t, going))
		if m := expect(t, lost); m != trainer0 {
			t.Errorf("%v is lost, want trainer 0", m)
		}
		h.live(r, map[Member]id.Incarnation{coordinator: leader.Incarnation(), server0: server.Incarnation()})
		h.entries(s, map[string]string{"a": "1", "b": "2"})
		if since, reason := r.Silent(); !since.IsZero() {
			t.Errorf("etcd is away since %v: %v", since, reason)
		}
		h.ok(leader.Leave(bounded(t)))
		h.ok(server.Leave(bounded(t)))
		select {
		case m := <-lost:
			t.Errorf("%v is lost", m)
		default:
		}
	}
}

// A commit to a server that is paused is not lost: another try goes to another server.
func TestEtcdServerIsPaused(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Start(t, 3, etcdtest.Options{})
	h := on(t, servers, "paused")
	r := h.open()
	s := r.State(h.member(r.LeadCoordinator(t.Context(), "host:1")))
	down := servers.Leader()
	servers.Pause(down)
	want := map[string]string{}
	for i := range 5 {
		key := fmt.Sprint("entry/", i)
		want[key] = "1"
		h.ok(s.Commit(bounded(t), []Change{{key, []byte("1")}}))
	}
	servers.Resume(down)
	h.ok(s.Commit(bounded(t), []Change{{"after", []byte("1")}}))
	want["after"] = "1"
	h.entries(s, want)
}

// Pages grow when entries are small, because etcd counts all keys that are left for each page. They shrink when entries are large.
func TestPages(t *testing.T) {
	for _, c := range []struct{ limit, bytes, next int }{
		{pageEntries, 0, 4 * pageEntries},
		{pageEntries, pageEntries * 100, 4 * pageEntries},
		{1000, 1000 * 1000, 2097},
		{1000, pageBytes, 1000},
		{1000, 4 * pageBytes, 250},
		{2, 8 * pageBytes, 1},
		{maxPageEntries, 1, maxPageEntries},
	} {
		if next := nextLimit(c.limit, c.bytes); next != c.next {
			t.Errorf("%d after %d entries of %d bytes, want %d", next, c.limit, c.bytes, c.next)
		}
	}
}
