package cluster

import (
	"errors"

	"github.com/edl-go/edl/fault"
)

func testForget(h *home) {
	r := h.open()
	h.ok(r.SetDesired(h.Context(), 2))
	h.ok(r.SetTrainers(h.Context(), 3))
	lost, err := r.Lost(h.Context())
	h.ok(err)
	gone := h.open()
	h.member(gone.ClaimServer(h.Context(), 0, "host:0"))
	h.member(gone.JoinTrainer(h.Context(), 0))
	h.ok(gone.Close())
	<-lost
	<-lost
	lingering := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	s := r.State(lingering)
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}}))
	near := h.openAt(h.prefix+"er", longLease)
	h.member(near.ClaimServer(h.Context(), 0, "host:3"))

	h.ok(r.Forget(h.Context()))
	if v := h.view(); len(v) != 2 || v[h.prefix+"/ps_desired"].value != "2" || v[h.prefix+"/trainers_desired"].value != "3" {
		h.Errorf("left: %v", v)
	}
	if err := s.Commit(h.Context(), []Change{{"a", []byte("2")}}); !errors.Is(err, fault.Fenced) {
		h.Errorf("a commit of a history that was forgotten: %v", err)
	}
	again := h.member(r.LeadCoordinator(h.Context(), "host:2"))
	if again.Fence() <= lingering.Fence() {
		h.Errorf("fence %d after %d", again.Fence(), lingering.Fence())
	}
	h.entries(r.State(again), nil)
	h.member(h.open().JoinTrainer(h.Context(), 0))
	h.ok(r.Bury(h.Context(), trainer0, 0))
	if m := <-lost; m != trainer0 { // the first loss of this history
		h.Errorf("%v is lost, want trainer 0", m)
	}
	live, err := near.Live(h.Context())
	h.ok(err)
	if len(live) != 1 {
		h.Errorf("another job has %v", live)
	}
}
