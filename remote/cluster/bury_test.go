package cluster

import (
	"errors"
	"maps"

	"github.com/edl-go/edl/fault"
)

func testBury(h *home) {
	watcher := h.open()
	lost, err := watcher.Lost(h.Context())
	h.ok(err)
	h.ok(watcher.Bury(h.Context(), trainer0, 0)) // there is none
	first := h.member(h.openAt(h.prefix, shortLease).JoinTrainer(h.Context(), 0))
	h.ok(watcher.Bury(h.Context(), trainer0, first.Fence()))
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	if err := first.Leave(h.Context()); !errors.Is(err, fault.Fenced) {
		h.Errorf("a member that was buried leaves: %v", err)
	}
	<-first.Done() // should its process live after all

	second := h.member(h.open().JoinTrainer(h.Context(), 0))
	h.ok(watcher.Bury(h.Context(), trainer0, first.Fence())) // of the first, too late
	h.live(watcher, map[Member]uint64{trainer0: second.Fence()})
	select {
	case <-second.Done():
		h.Fatal("the burial of its predecessor has hit it")
	default:
	}
	h.ok(watcher.Bury(h.Context(), trainer0, 0)) // whoever it is
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	h.live(watcher, map[Member]uint64{})

	leader := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	h.ok(watcher.Bury(h.Context(), coordinator, leader.Fence()))
	if m := <-lost; m != coordinator {
		h.Fatalf("%v is lost, want the coordinator", m)
	}
	next := h.member(h.open().LeadCoordinator(h.Context(), "host:2")) // at once
	if address, err := watcher.Coordinator(h.Context()); address != "host:2" || err != nil {
		h.Errorf("coordinator at %q, %v", address, err)
	}
	h.ok(next.Leave(h.Context()))
	h.ok(watcher.Close())
	if m, more := <-lost; more {
		h.Errorf("%v is lost", m)
	}
}

func (h *home) live(r Registry, want map[Member]uint64) {
	h.Helper()
	got, err := r.Live(h.Context())
	h.ok(err)
	if !maps.Equal(got, want) {
		h.Errorf("live members %v, want %v", got, want)
	}
}

func testLive(h *home) {
	r := h.open()
	h.live(r, map[Member]uint64{})
	want := map[Member]uint64{}
	for _, join := range []func() (Membership, error){
		func() (Membership, error) { return r.LeadCoordinator(h.Context(), "host:1") },
		func() (Membership, error) { return r.ClaimServer(h.Context(), 1, "host:1") },
		func() (Membership, error) { return r.ClaimServer(h.Context(), 12, "host:1") },
		func() (Membership, error) { return r.JoinTrainer(h.Context(), 1) },
		func() (Membership, error) { return r.JoinTrainer(h.Context(), 0) },
	} {
		m := h.member(join())
		want[m.Member()] = m.Fence()
		h.live(r, want)
		h.ok(m.Leave(h.Context()))
		delete(want, m.Member())
		h.live(r, want)
		m = h.member(join())
		want[m.Member()] = m.Fence()
		h.live(r, want)
	}
}

// A loss is told although the member has joined again before the watcher could see it away.
func testLostBehindItsBack(h *home) {
	views := make(chan view)
	blind := h.open().(*registry)
	blind.store = &jumping{store: blind.store, prefix: h.prefix + "/trainer", views: views}
	lost, err := blind.Lost(h.Context())
	h.ok(err)
	show := func() { views <- h.view() }
	join := func() Membership { return h.member(h.open().JoinTrainer(h.Context(), 0)) }

	h.ok(join().Leave(h.Context()))
	join()
	show()
	h.ok(blind.Bury(h.Context(), trainer0, 0))
	join()
	show() // lives, as before
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	h.ok(blind.Bury(h.Context(), trainer0, 0))
	h.ok(join().Leave(h.Context()))
	show() // lost, and then left
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	h.ok(join().Leave(h.Context()))
	join()
	show() // left and back: no loss
	h.ok(blind.Close())
	if m, more := <-lost; more {
		h.Errorf("%v is lost though it left in order", m)
	}
}
