package cluster

import (
	"errors"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

func testDesired(h *home) {
	got := make(chan int, 1)
	waiting := h.open()
	go func() {
		n, err := waiting.Desired(h.Context())
		if err != nil {
			h.Error(err)
		}
		got <- n
	}()
	r := h.open()
	h.ok(r.SetDesired(h.Context(), 3))
	if n := <-got; n != 3 {
		h.Fatalf("desired %d, want 3", n)
	}
	m := h.member(r.ClaimServer(h.Context(), 0, "host:1"))
	h.ok(r.Close())
	<-m.Done()
	if n, err := waiting.Desired(h.Context()); n != 3 || err != nil {
		h.Fatalf("desired %d, %v after pserver 0 has gone", n, err)
	}
}

func testServers(h *home) {
	r := h.open()
	type answer struct {
		addresses []string
		err       error
	}
	all, one := make(chan answer, 1), make(chan answer, 1)
	go func() {
		addresses, err := r.Servers(h.Context(), 2)
		all <- answer{addresses, err}
	}()
	go func() {
		address, err := r.Server(h.Context(), 1)
		one <- answer{[]string{address}, err}
	}()
	h.member(r.ClaimServer(h.Context(), 7, "host:7"))
	h.member(r.ClaimServer(h.Context(), 1, "host:1"))
	if a := <-one; a.err != nil || a.addresses[0] != "host:1" {
		h.Errorf("server 1: %v", a)
	}
	h.member(r.ClaimServer(h.Context(), 0, "host:0"))
	if a := <-all; a.err != nil || !slices.Equal(a.addresses, []string{"host:0", "host:1"}) {
		h.Errorf("servers: %v", a)
	}
}

func testNodes(h *home) {
	r := h.open()
	b := h.member(r.RegisterNode(h.Context(), "b", "host:2"))
	h.member(h.openAt(Prefix("other"), longLease).RegisterNode(h.Context(), "a", "host:1"))
	if _, err := r.RegisterNode(h.Context(), "a", "host:3"); !errors.Is(err, fault.Fenced) {
		h.Fatalf("an id that is taken: %v", err)
	}
	nodes, err := r.Nodes(h.Context())
	h.ok(err)
	if want := []Node{{"a", "host:1"}, {"b", "host:2"}}; !slices.Equal(nodes, want) {
		h.Fatalf("nodes %v, want %v", nodes, want)
	}
	h.ok(b.Leave(h.Context()))
	nodes, err = r.Nodes(h.Context())
	h.ok(err)
	if want := []Node{{"a", "host:1"}}; !slices.Equal(nodes, want) {
		h.Fatalf("nodes %v, want %v", nodes, want)
	}
}

func testJobsApart(h *home) {
	near, far := h.open(), h.openAt(h.prefix+"er", longLease)
	lost, err := near.Lost(h.Context())
	h.ok(err)
	h.member(far.ClaimServer(h.Context(), 0, "host:1"))
	h.member(near.ClaimServer(h.Context(), 0, "host:2"))
	h.ok(far.Close())
	h.ok(near.Close())
	for m := range lost {
		h.Fatalf("the loss of %v in another job is reported", m)
	}
}

func testClosed(h *home) {
	r := h.open()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Coordinator(h.Context())
		ended <- err
	}()
	h.ok(r.Close())
	h.ok(r.Close())
	_, claim := r.ClaimServer(h.Context(), 0, "host:1")
	_, lost := r.Lost(h.Context())
	for what, err := range map[string]error{"a wait": <-ended, "a claim": claim, "lost": lost, "desired": r.SetDesired(h.Context(), 1)} {
		if !errors.Is(err, fault.Canceled) || !strings.Contains(err.Error(), "closed") {
			h.Errorf("%s on a closed registry: %v", what, err)
		}
	}
}
