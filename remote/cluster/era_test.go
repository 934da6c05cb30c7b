package cluster

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
	"github.com/edl-go/edl/remote/id"
)

// wipe loses all data, as an etcd does whose folder was removed: keys, leases and revisions.
func (m *Memory) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries, m.revision = map[string]memoryEntry{}, 0
	for w := range m.watchers {
		w.show(view{})
	}
	for _, l := range m.granted {
		l.endWith(true, txn{})
	}
}

// losers are stores that lose their data.
func losers(t *testing.T) map[string]func(*testing.T) (h *home, wipe func()) {
	return map[string]func(*testing.T) (*home, func()){
		"memory": func(t *testing.T) (*home, func()) {
			m := NewMemory()
			return &home{T: t, prefix: Prefix("lost"), handle: func(c Config) (Registry, error) { return m.Open(c.Prefix) }}, m.wipe
		},
		"etcd": func(t *testing.T) (*home, func()) {
			servers := etcdtest.Start(t, 1, etcdtest.Options{})
			return &home{T: t, prefix: Prefix("lost"), handle: openAt(t, servers.Endpoints)}, func() {
				servers.Kill(0)
				servers.Wipe(0)
				servers.Restart(0)
			}
		},
	}
}

// hasEntries waits until the store has the entries of a State.
func hasEntries(h *home, want map[string]string) {
	h.Helper()
	r := h.open().(*registry)
	err := r.store.follow(bounded(h.T), h.prefix+stateKey, func(v view) bool {
		have := map[string]string{}
		for key, e := range v {
			have[key[len(h.prefix+stateKey):]] = e.value
		}
		return maps.Equal(have, want)
	})
	if err != nil {
		h.Fatalf("the store does not have %v: %v", want, err)
	}
}

// An etcd that has lost all its data, twice, has what it had from those who live: the listener, members with their incarnations, the state of the coordinator.
// Nobody is lost. Members that join later have greater incarnations than any before.
func TestDataIsLost(t *testing.T) {
	for name, open := range losers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, wipe := open(t)
			ctx := bounded(t)
			listener, servers, leading, others := h.openWith(watchful), h.openWith(watchful), h.openWith(watchful), h.openWith(watchful)
			owner := h.member(listener.Claim(ctx))
			h.ok(listener.SetDesired(ctx, 2))
			h.ok(listener.SetTrainers(ctx, 3))
			for range 20 { // revisions
				h.ok(listener.SetTrainers(ctx, 3))
			}
			server, leader := h.member(servers.JoinServer(ctx, 0, "s:1")), h.member(leading.LeadCoordinator(ctx, "c:1"))
			trainer := h.member(others.JoinTrainer(ctx, 0))
			s := leading.State(leader)
			if _, err := s.Load(ctx); err != nil {
				t.Fatal(err)
			}
			h.ok(s.Commit(ctx, []Change{{"a", []byte("1")}, {"b", []byte("2")}, {"c", []byte("3")}}))
			lost, err := listener.WatchLost(ctx)
			h.ok(err)
			wanted, err := others.WatchTrainers(ctx)
			h.ok(err)
			want := map[Member]id.Incarnation{server0: server.Incarnation(), coordinator: leader.Incarnation(), trainer0: trainer.Incarnation()}
			for range 2 {
				wipe()
				hasEntries(h, map[string]string{"a": "1", "b": "2", "c": "3"})
				for {
					live, err := listener.Live(ctx)
					if err == nil && maps.Equal(live, want) {
						break
					}
					if ctx.Err() != nil {
						t.Fatalf("live are %v, %v, want %v", live, err, want)
					}
				}
				if n, err := others.Desired(ctx); n != 2 || err != nil {
					t.Errorf("%d pservers are wanted, %v", n, err)
				}
				if address, err := others.Coordinator(ctx); address != "c:1" || err != nil {
					t.Errorf("the coordinator is at %q, %v", address, err)
				}
			}
			for name, m := range map[string]Membership{"listener": owner, "pserver": server, "coordinator": leader, "trainer": trainer} {
				select {
				case <-m.Done():
					t.Errorf("the %s is lost", name)
				default:
				}
			}
			h.ok(s.Commit(ctx, []Change{{"b", nil}, {"d", []byte("4")}}))
			hasEntries(h, map[string]string{"a": "1", "c": "3", "d": "4"})
			h.ok(listener.SetTrainers(ctx, 5))
			until(h, wanted, 5)
			select {
			case m := <-lost:
				t.Errorf("%v counts as lost", m)
			default:
			}

			h.ok(listener.RevokeLease(ctx, coordinator, leader.Incarnation()))
			if m := <-lost; m != coordinator {
				t.Errorf("%v is lost, want the coordinator", m)
			}
			<-leader.Done()
			next := h.open()
			second := h.member(next.LeadCoordinator(ctx, "c:2"))
			if second.Fence() <= leader.Fence() {
				t.Errorf("fence %d follows %d", second.Fence(), leader.Fence())
			}
			h.entries(next.State(second), map[string]string{"a": "1", "c": "3", "d": "4"})
			if live, err := listener.Live(ctx); err != nil || live[coordinator] != second.Incarnation() {
				t.Errorf("live are %v, %v", live, err)
			}
			h.ok(trainer.Leave(ctx))
			h.ok(server.Leave(ctx))
		})
	}
}

// A state that nobody knows who lives is lost, and whoever leads next is told so. A change whose coordinator lives is committed after what it knew.
func TestStateIsLost(t *testing.T) {
	m := NewMemory()
	h := &home{T: t, prefix: Prefix("lost"), handle: func(c Config) (Registry, error) { return m.Open(c.Prefix) }}
	ctx := bounded(t)
	listener, leading := h.open(), h.open()
	h.member(listener.Claim(ctx))
	h.ok(listener.SetDesired(ctx, 1))
	leader := h.member(leading.LeadCoordinator(ctx, "c:1"))
	s := leading.State(leader)
	if _, err := s.Load(ctx); err != nil {
		t.Fatal(err)
	}
	h.ok(s.Commit(ctx, []Change{{"a", []byte("1")}}))
	m.wipe()
	h.ok(s.Commit(ctx, []Change{{"b", []byte("2")}}))
	h.entries(s, map[string]string{"a": "1", "b": "2"})

	h.ok(leading.Close())
	m.wipe()
	if _, err := h.open().Desired(ctx); err != nil {
		t.Fatal(err)
	}
	next := h.open()
	second := h.member(next.LeadCoordinator(ctx, "c:2"))
	if _, err := next.State(second).Load(ctx); !errors.Is(err, fault.LostState) {
		t.Errorf("the state of a store that has lost its data: %v", err)
	}
	if second.Fence() <= leader.Fence() {
		t.Errorf("fence %d follows %d", second.Fence(), leader.Fence())
	}
	h.ok(second.Leave(ctx))
	h.ok(listener.Forget(ctx))
	third := h.member(next.LeadCoordinator(ctx, "c:3"))
	h.entries(next.State(third), map[string]string{})
}

// A process that was declared lost before the data were lost may be the first to come back. It gives way to the one that has followed it.
func TestLostMemberComesBackFirst(t *testing.T) {
	m := NewMemory()
	h := &home{T: t, prefix: Prefix("lost"), handle: func(c Config) (Registry, error) { return m.Open(c.Prefix) }}
	ctx := bounded(t)
	listener, paused, following := h.open(), h.open(), h.open()
	h.member(listener.Claim(ctx))
	old := h.member(paused.JoinTrainer(ctx, 0)).(*membership)
	h.ok(listener.RevokeLease(ctx, trainer0, 0))
	<-old.Done()
	young := h.member(following.JoinTrainer(ctx, 0)).(*membership)
	m.wipe()
	for {
		live, err := listener.Live(ctx)
		h.ok(err)
		if live[trainer0] == young.Incarnation() {
			break
		}
	}
	// What the old one would write if it had been paused since before it was declared lost.
	v, err := old.registry.store.get(ctx, old.keys[0], old.record, old.eraKey)
	h.ok(err)
	if may, err := old.mayReturn(v); may || err != nil {
		t.Errorf("it may take the place of its successor: %v", err)
	}
	delete(v, old.keys[0])
	v[old.record] = entry{}
	if may, err := old.mayReturn(v); !may || err != nil {
		t.Errorf("it may not take its place although no record says that it is another's: %v", err)
	}
	v[old.record] = entry{value: lossRecord{how: recordJoined, as: old.created}.String(), created: 1, modified: 1}
	if may, err := young.mayReturn(view{old.record: v[old.record], young.eraKey: {value: "9"}}); !may || err != nil {
		t.Errorf("its successor may not take its place back: %v", err)
	}
}

// Whoever waits for a listener that is gone, too, is lost in the end.
func TestDataIsLostWithTheListener(t *testing.T) {
	m := NewMemory()
	h := &home{T: t, prefix: Prefix("lost"), handle: func(c Config) (Registry, error) { return m.Open(c.Prefix) }}
	ctx := bounded(t)
	listener, other := h.open(), h.open()
	other.(*registry).patience = time.Nanosecond
	h.member(listener.Claim(ctx))
	trainer := h.member(other.JoinTrainer(ctx, 0))
	h.ok(listener.Close())
	m.wipe()
	select {
	case <-trainer.Done():
	case <-ctx.Done():
		t.Error("it waits for ever")
	}
}
