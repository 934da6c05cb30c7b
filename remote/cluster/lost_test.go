package cluster

import (
	"errors"

	"github.com/edl-go/edl/fault"
)

func testLead(h *home) {
	a, b := h.open(), h.open()
	first := h.member(a.LeadCoordinator(h.Context(), "host:1"))
	address, err := b.Coordinator(h.Context())
	h.ok(err)
	if address != "host:1" {
		h.Fatalf("coordinator at %s", address)
	}
	next := make(chan Membership, 1)
	go func() {
		m, err := b.LeadCoordinator(h.Context(), "host:2")
		if err != nil {
			h.Error(err)
		}
		next <- m
	}()
	h.ok(first.Leave(h.Context()))
	second := <-next
	if second == nil || second.Fence() <= first.Fence() || second.Member() != coordinator {
		h.Fatalf("%v follows one with fence %d", second, first.Fence())
	}
	if address, err = a.Coordinator(h.Context()); err != nil || address != "host:2" {
		h.Fatalf("coordinator at %s, %v", address, err)
	}
}

// The old coordinator was paused while its lease ended. Whatever it does afterwards leaves the new one's keys alone.
func testFenced(h *home) {
	a, b := h.openAt(h.prefix, shortLease), h.open()
	old := h.member(a.LeadCoordinator(h.Context(), "host:1"))
	h.end(h.prefix, coordinator)
	young := h.member(b.LeadCoordinator(h.Context(), "host:2"))
	<-old.Done()
	if err := old.Leave(h.Context()); !errors.Is(err, fault.Fenced) {
		h.Fatalf("leaving without a lease: %v", err)
	}
	h.ok(a.Close())
	v := h.view()
	if lock := v[h.prefix+"/master/lock"]; uint64(lock.created) != young.Fence() || lock.value != "host:2" ||
		v[h.prefix+"/master/addr"].value != "host:2" || v[h.prefix+"/master_mark/lock"].value != "joined 1" {
		h.Fatalf("the old coordinator has changed %v", v)
	}
	select {
	case <-young.Done():
		h.Fatal("the new coordinator has lost its lease")
	default:
	}
}

func testLost(h *home) {
	watcher := h.open()
	lost, err := watcher.Lost(h.Context())
	h.ok(err)

	orderly := h.member(h.open().JoinTrainer(h.Context(), 3))
	h.ok(orderly.Leave(h.Context()))

	expired := h.member(h.openAt(h.prefix, shortLease).JoinTrainer(h.Context(), 0))
	h.end(h.prefix, trainer0)
	<-expired.Done()
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}

	again := h.open()
	h.member(again.JoinTrainer(h.Context(), 0))
	h.ok(again.Close())
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0 once more", m)
	}

	leader := h.open()
	h.member(leader.LeadCoordinator(h.Context(), "host:1"))
	h.ok(leader.Close())
	if m := <-lost; m != coordinator {
		h.Fatalf("%v is lost, want the coordinator", m)
	}
	h.ok(watcher.Close())
	if m, more := <-lost; more {
		h.Fatalf("%v is lost though it left", m)
	}
}

func testPastLosses(h *home) {
	gone := h.open()
	h.member(gone.ClaimServer(h.Context(), 0, "host:1"))
	h.ok(h.member(gone.JoinTrainer(h.Context(), 0)).Leave(h.Context()))
	h.ok(gone.Close())
	for range 2 {
		lost, err := h.open().Lost(h.Context())
		h.ok(err)
		if m := <-lost; m != server0 {
			h.Fatalf("%v is lost, want pserver 0", m)
		}
	}
}
