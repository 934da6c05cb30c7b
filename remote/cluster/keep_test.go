package cluster

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// Members whose leases have ended, and whose places nobody wants, take their keys anew. They stay the same incarnations, and the coordinator goes on under
// the same fence.
func testAnew(h *home) {
	r, other := h.openWith(watchful), h.open()
	leader := h.member(r.LeadCoordinator(h.Context(), "host:1"))
	server := h.member(r.JoinServer(h.Context(), 0, "host:2"))
	node := h.member(r.RegisterNode(h.Context(), "anew", "host:3"))
	s := r.State(leader)
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}}))
	want := map[Member]id.Incarnation{coordinator: leader.Incarnation(), server0: server.Incarnation()}
	for i := range 3 {
		h.lapse(h.prefix, coordinator)
		h.ok(s.Commit(bounded(h.T), []Change{{"b", []byte{byte('0' + i)}}})) // waits until the lock is taken anew
		h.lapse(h.prefix, server0)
		eventually(h.T, "members that live as before", func() bool {
			live, err := other.Live(bounded(h.T))
			h.ok(err)
			return maps.Equal(live, want)
		})
	}
	h.entries(s, map[string]string{"a": "1", "b": "2"})
	if address, err := other.Server(h.Context(), 0); address != "host:2" || err != nil {
		h.Errorf("pserver 0 at %q, %v", address, err)
	}
	if v := h.view(); v[h.prefix+addressKey].value != "host:1" {
		h.Errorf("the coordinator is at %q", v[h.prefix+addressKey].value)
	}
	for _, m := range []Membership{leader, server, node} {
		select {
		case <-m.Done():
			h.Errorf("%v is lost", m.Member())
		default:
		}
		h.ok(m.Leave(h.Context()))
	}
	h.live(other, map[Member]id.Incarnation{})
	young := h.member(other.LeadCoordinator(h.Context(), "host:4"))
	if young.Fence() <= leader.Fence() {
		h.Errorf("fence %d after %d", young.Fence(), leader.Fence())
	}
	h.entries(other.State(young), map[string]string{"a": "1", "b": "2"})
}

// A member whose lease has ended tries to take its key anew while others declare it lost, or take its place. One of them wins, and all agree who.
func testContest(h *home) {
	watcher := h.open()
	lost, err := watcher.WatchLost(h.Context())
	h.ok(err)
	gone := h.open()
	h.member(gone.JoinTrainer(h.Context(), 0))
	h.ok(gone.Close())
	expect(h.T, lost) // and so the watcher sees what follows
	for i := range 10 {
		r := h.openWith(watchful)
		m := h.member(r.JoinTrainer(h.Context(), 0))
		h.lapse(h.prefix, trainer0)
		var next Membership
		if i%2 == 0 {
			if next, err = watcher.JoinTrainer(h.Context(), 0); err != nil && !errors.Is(err, fault.Fenced) {
				h.Fatal(err)
			}
		}
		won := false
		eventually(h.T, "a decision", func() bool {
			live, err := watcher.Live(bounded(h.T))
			h.ok(err)
			if won = live[trainer0] == m.Incarnation(); won {
				return true
			}
			select {
			case <-m.Done():
				return true
			default:
				return false
			}
		})
		switch {
		case won && next != nil:
			h.Fatal("two processes hold one key")
		case won:
			h.ok(m.Leave(h.Context()))
		default:
			if who := expect(h.T, lost); who != trainer0 {
				h.Fatalf("%v is lost, want trainer 0", who)
			}
			if err := m.Leave(h.Context()); !errors.Is(err, fault.Fenced) {
				h.Errorf("a member that was lost leaves: %v", err)
			}
		}
		if next != nil {
			h.ok(next.Leave(h.Context()))
		}
	}
	h.ok(watcher.Close())
	for m := range lost {
		h.Errorf("%v is lost once more", m)
	}
}

// A member leaves in order although its lease has just ended.
func testLeaveWithoutKey(h *home) {
	r := h.open()
	m := h.member(r.JoinTrainer(h.Context(), 0)) // it notices the end of its lease in a store that tells it
	h.lapse(h.prefix, trainer0)
	h.ok(m.Leave(h.Context()))
	lost, err := r.WatchLost(h.Context())
	h.ok(err)
	h.live(r, map[Member]id.Incarnation{})
	h.ok(r.Close())
	for m := range lost {
		h.Errorf("%v is lost, and had left", m)
	}
}

// A member is declared lost after it has read its record and before it takes its key anew: it does not get the key.
func testDeclaredMeanwhile(h *home) {
	other := h.open()
	r := h.openWith(watchful).(*registry)
	late := &interrupted{store: r.store}
	r.store = late
	m := h.member(r.JoinTrainer(h.Context(), 0))
	declare := func() {
		if err := other.RevokeLease(bounded(h.T), trainer0, 0); err != nil {
			h.Error(err)
		}
	}
	late.before.Store(&declare)
	h.lapse(h.prefix, trainer0)
	expectClosed(h.T, m.Done())
	h.live(other, map[Member]id.Incarnation{})
	if v := h.view(); v[h.prefix+lossKey(trainer0)].value != "lost 0" {
		h.Errorf("the record is %q", v[h.prefix+lossKey(trainer0)].value)
	}
}

// expectClosed waits until a channel is closed.
func expectClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-bounded(t).Done():
		t.Fatal("it is still open")
	}
}

// interrupted is a store that calls a function once, just before a commit.
type interrupted struct {
	store
	before atomic.Pointer[func()]
}

func (s *interrupted) commit(ctx context.Context, t txn) (int64, bool, error) {
	if f := s.before.Swap(nil); f != nil {
		(*f)()
	}
	return s.store.commit(ctx, t)
}

// cutOff is a store that gives no leases while it is cut.
type cutOff struct {
	store
	cut atomic.Bool
}

func (s *cutOff) grant(ctx context.Context) (lease, error) {
	if s.cut.Load() {
		return nil, fault.New(fault.Unavailable, "cut off")
	}
	return s.store.grant(ctx)
}

// A member without its key keeps its place while its process answers, and for a bounded time. It was too busy to renew its lease, or cannot reach the store.
func testAnswers(h *home) {
	asked := make(chan string)
	var hangs atomic.Bool
	watcher := h.open().(*registry)
	watcher.lease, watcher.answers = longLease, func(ctx context.Context, address string) bool {
		select {
		case asked <- address:
		case <-ctx.Done():
		}
		return !hangs.Load()
	}
	lost, err := watcher.WatchLost(h.Context())
	h.ok(err)
	hangs.Store(true)
	gone := h.open()
	h.member(gone.JoinServer(h.Context(), 1, "host:8"))
	h.ok(gone.Close())
	for followed := false; !followed; { // and so the watcher sees what follows of servers: only a member that it has seen can be asked
		select {
		case <-asked:
		case <-lost:
			followed = true
		case <-bounded(h.T).Done():
			h.Fatal("nothing came")
		}
	}
	hangs.Store(false)
	r := h.openWith(watchful).(*registry)
	link := &cutOff{store: r.store}
	r.store = link
	m := h.member(r.JoinServer(h.Context(), 0, "host:7"))
	for _, hung := range []bool{false, true} {
		link.cut.Store(true)
		h.lapse(h.prefix, server0)
		if at := expect(h.T, asked); at != "host:7" {
			h.Fatalf("somebody at %q is asked", at)
		}
		if hangs.Store(hung); hung {
			break
		}
		expect(h.T, asked) // again, because it has answered
		link.cut.Store(false)
		eventually(h.T, "the key again", func() bool {
			select {
			case <-asked:
			default:
			}
			live, err := r.Live(bounded(h.T))
			h.ok(err)
			return live[server0] == m.Incarnation()
		})
	}
	go func() { // it may be asked once more before it hangs
		for h.Context().Err() == nil {
			select {
			case <-asked:
			case <-h.Context().Done():
			}
		}
	}()
	if who := expect(h.T, lost); who != server0 {
		h.Fatalf("%v is lost", who)
	}
	expectClosed(h.T, m.Done())
	watcher.lease = 0
	if lives := answering(watcher, "host:7"); lives(h.Context()) {
		h.Error("a member that answers has more time than its leases")
	}
}
