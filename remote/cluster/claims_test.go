package cluster

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

func testClaim(h *home) {
	a, b := h.open(), h.open()
	h.ok(a.SetDesired(h.Context(), 2))
	first := h.member(a.ClaimServer(h.Context(), 1, "host:1"))
	if _, err := b.ClaimServer(h.Context(), 1, "host:2"); !errors.Is(err, fault.Fenced) {
		h.Fatalf("an index that is taken: %v", err)
	}
	second := h.member(b.ClaimServer(h.Context(), AnyIndex, "host:2"))
	if second.Member() != server0 || second.Fence() <= first.Fence() {
		h.Fatalf("%v with fence %d after %d, want pserver 0", second.Member(), second.Fence(), first.Fence())
	}
	if _, err := b.ClaimServer(h.Context(), AnyIndex, "host:3"); !errors.Is(err, fault.Fenced) {
		h.Fatalf("more servers than desired: %v", err)
	}
	h.ok(first.Leave(h.Context()))
	h.ok(first.Leave(h.Context()))
	third := h.member(b.ClaimServer(h.Context(), AnyIndex, "host:3"))
	if third.Member().Index != 1 {
		h.Fatalf("%v took the place that was left, want pserver 1", third.Member())
	}
	select {
	case <-first.Done():
		h.Fatal("who left in order has not lost its lease")
	default:
	}
}

func testClaimAny(h *home) {
	const n = 6
	h.ok(h.open().SetDesired(h.Context(), n))
	var mu sync.Mutex
	taken := map[int]bool{}
	var all sync.WaitGroup
	for range n {
		r := h.open()
		all.Go(func() {
			m, err := r.ClaimServer(h.Context(), AnyIndex, "host:1")
			if err != nil {
				h.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken[m.Member().Index] = true
		})
	}
	all.Wait()
	if len(taken) != n {
		h.Fatalf("%d servers took the indexes %v", n, taken)
	}
}

func testKeys(h *home) {
	r := h.open()
	h.ok(r.SetDesired(h.Context(), 3))
	c := h.member(r.LeadCoordinator(h.Context(), "host:1"))
	s := h.member(r.ClaimServer(h.Context(), AnyIndex, "host:2"))
	t := h.member(r.JoinTrainer(h.Context(), 4))
	v := h.view()
	values := map[string]string{"/ps_desired": "3", "/ps/0": "host:2", "/master/lock": "host:1", "/master/addr": "host:1", "/trainer/4": "",
		"/master_mark/lock": "joined 0", "/ps_mark/0": "joined 0", "/trainer_mark/4": "joined 0"}
	for key, value := range values {
		if e, ok := v[h.prefix+key]; !ok || e.value != value {
			h.Errorf("%s is %q, %v, want %q", key, e.value, ok, value)
		}
	}
	if len(v) != len(values) {
		h.Errorf("keys %v", slices.Collect(maps.Keys(v)))
	}
	if got := v[h.prefix+"/master/lock"].created; uint64(got) != c.Fence() {
		h.Errorf("fence %d of a lock that was created at revision %d", c.Fence(), got)
	}
	for _, m := range []Membership{c, s, t} {
		h.ok(m.Leave(h.Context()))
	}
	for key, e := range h.view() {
		if key != h.prefix+"/ps_desired" && e.value != "left 0" {
			h.Errorf("%s is %q after all have left", key, e.value)
		}
	}
}

func testRange(h *home) {
	r := h.open()
	_, claim := r.ClaimServer(h.Context(), -2, "host:1")
	_, join := r.JoinTrainer(h.Context(), maxMembers)
	_, servers := r.Servers(h.Context(), maxMembers+1)
	_, node := r.RegisterNode(h.Context(), "a/b", "host:1")
	for what, err := range map[string]error{"index": claim, "rank": join, "servers": servers, "node": node,
		"desired 0": r.SetDesired(h.Context(), 0), "desired": r.SetDesired(h.Context(), maxMembers+1)} {
		if !errors.Is(err, fault.InvalidArgument) {
			h.Errorf("%s: %v", what, err)
		}
	}
	m, ok := memberOf(trainersKey + "07")
	if ok {
		h.Errorf("a key that nobody writes makes %v", m)
	}
	if m := (Member{Role: job.Role_TRAINER, Index: 7}); m.String() != "trainer 7" {
		h.Errorf("%q", m)
	}
}
