package cluster

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/id"
)

func testClaim(h *home) {
	a, b := h.open(), h.open()
	h.ok(a.SetDesired(h.Context(), 2))
	first := h.member(a.JoinServer(h.Context(), 1, "host:1"))
	if _, err := b.JoinServer(h.Context(), 1, "host:2"); !errors.Is(err, fault.Fenced) {
		h.Fatalf("an index that is taken: %v", err)
	}
	second := h.member(b.JoinServer(h.Context(), AnyIndex, "host:2"))
	if second.Member() != server0 || second.Fence() <= first.Fence() {
		h.Fatalf("%v with fence %d after %d, want pserver 0", second.Member(), second.Fence(), first.Fence())
	}
	if _, err := b.JoinServer(h.Context(), AnyIndex, "host:3"); !errors.Is(err, fault.Fenced) {
		h.Fatalf("more servers than desired: %v", err)
	}
	h.ok(first.Leave(h.Context()))
	h.ok(first.Leave(h.Context()))
	third := h.member(b.JoinServer(h.Context(), AnyIndex, "host:3"))
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
			m, err := r.JoinServer(h.Context(), AnyIndex, "host:1")
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
	s := h.member(r.JoinServer(h.Context(), AnyIndex, "host:2"))
	t := h.member(r.JoinTrainer(h.Context(), 4))
	v := h.view()
	values := map[string]string{"/ps_desired": "3", "/ps/0": "host:2", "/master/lock": "host:1", "/master/addr": "host:1", "/trainer/4": "",
		"/master_losses/lock": "joined 0", "/ps_losses/0": "joined 0", "/trainer_losses/4": "joined 0"}
	for key, value := range values {
		if e, ok := v[h.prefix+key]; !ok || e.value != value {
			h.Errorf("%s is %q, %v, want %q", key, e.value, ok, value)
		}
	}
	if len(v) != len(values) {
		h.Errorf("keys %v", slices.Collect(maps.Keys(v)))
	}
	if got := v[h.prefix+"/master/lock"].created; id.Fence(got) != c.Fence() {
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
	_, claim := r.JoinServer(h.Context(), -2, "host:1")
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

// The old coordinator was paused while its lease ended. What it does afterwards does not change the keys of the new one.
func testFenced(h *home) {
	a, b := h.openWith(watchful), h.open()
	old := h.member(a.LeadCoordinator(h.Context(), "host:1"))
	h.end(h.prefix, coordinator)
	young := h.member(b.LeadCoordinator(h.Context(), "host:2"))
	<-old.Done()
	if err := old.Leave(h.Context()); !errors.Is(err, fault.Fenced) {
		h.Fatalf("leaving without a lease: %v", err)
	}
	h.ok(a.Close())
	v := h.view()
	if lock := v[h.prefix+"/master/lock"]; id.Fence(lock.created) != young.Fence() || lock.value != "host:2" ||
		v[h.prefix+"/master/addr"].value != "host:2" || v[h.prefix+"/master_losses/lock"].value != "joined 1" {
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
	lost, err := watcher.WatchLost(h.Context())
	h.ok(err)

	orderly := h.member(h.open().JoinTrainer(h.Context(), 3))
	h.ok(orderly.Leave(h.Context()))

	expired := h.member(h.openWith(watchful).JoinTrainer(h.Context(), 0))
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
	h.member(gone.JoinServer(h.Context(), 0, "host:1"))
	h.ok(h.member(gone.JoinTrainer(h.Context(), 0)).Leave(h.Context()))
	h.ok(gone.Close())
	for range 2 {
		lost, err := h.open().WatchLost(h.Context())
		h.ok(err)
		if m := <-lost; m != server0 {
			h.Fatalf("%v is lost, want pserver 0", m)
		}
	}
}

func testRevokeLease(h *home) {
	watcher := h.open()
	lost, err := watcher.WatchLost(h.Context())
	h.ok(err)
	h.ok(watcher.RevokeLease(h.Context(), trainer0, 0)) // there is none
	first := h.member(h.openWith(watchful).JoinTrainer(h.Context(), 0))
	h.ok(watcher.RevokeLease(h.Context(), trainer0, first.Incarnation()))
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	if err := first.Leave(h.Context()); !errors.Is(err, fault.Fenced) {
		h.Errorf("a member whose lease was revoked leaves: %v", err)
	}
	<-first.Done() // should its process live after all

	second := h.member(h.open().JoinTrainer(h.Context(), 0))
	h.ok(watcher.RevokeLease(h.Context(), trainer0, first.Incarnation())) // of the first, too late
	h.live(watcher, map[Member]id.Incarnation{trainer0: second.Incarnation()})
	select {
	case <-second.Done():
		h.Fatal("its lease was revoked in place of that of its predecessor")
	default:
	}
	h.ok(watcher.RevokeLease(h.Context(), trainer0, 0)) // whoever it is
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	h.live(watcher, map[Member]id.Incarnation{})

	leader := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	h.ok(watcher.RevokeLease(h.Context(), coordinator, leader.Incarnation()))
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

func (h *home) live(r Registry, want map[Member]id.Incarnation) {
	h.Helper()
	got, err := r.Live(h.Context())
	h.ok(err)
	if !maps.Equal(got, want) {
		h.Errorf("live members %v, want %v", got, want)
	}
}

func testLive(h *home) {
	r := h.open()
	h.live(r, map[Member]id.Incarnation{})
	want := map[Member]id.Incarnation{}
	for _, join := range []func() (Membership, error){
		func() (Membership, error) { return r.LeadCoordinator(h.Context(), "host:1") },
		func() (Membership, error) { return r.JoinServer(h.Context(), 1, "host:1") },
		func() (Membership, error) { return r.JoinServer(h.Context(), 12, "host:1") },
		func() (Membership, error) { return r.JoinTrainer(h.Context(), 1) },
		func() (Membership, error) { return r.JoinTrainer(h.Context(), 0) },
	} {
		m := h.member(join())
		want[m.Member()] = m.Incarnation()
		h.live(r, want)
		h.ok(m.Leave(h.Context()))
		delete(want, m.Member())
		h.live(r, want)
		m = h.member(join())
		want[m.Member()] = m.Incarnation()
		h.live(r, want)
	}
}

// A loss is reported even if the member has joined again before the watcher looked.
func testLostBehindItsBack(h *home) {
	views := make(chan view)
	blind := h.open().(*registry)
	blind.store = &jumping{store: blind.store, prefix: h.prefix + "/trainer", views: views}
	lost, err := blind.WatchLost(h.Context())
	h.ok(err)
	show := func() { views <- h.view() }
	join := func() Membership { return h.member(h.open().JoinTrainer(h.Context(), 0)) }

	h.ok(join().Leave(h.Context()))
	join()
	show()
	h.ok(blind.RevokeLease(h.Context(), trainer0, 0))
	join()
	show() // lives, as before
	if m := <-lost; m != trainer0 {
		h.Fatalf("%v is lost, want trainer 0", m)
	}
	h.ok(blind.RevokeLease(h.Context(), trainer0, 0))
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

func testForget(h *home) {
	r := h.open()
	h.ok(r.SetDesired(h.Context(), 2))
	h.ok(r.SetTrainers(h.Context(), 3))
	lost, err := r.WatchLost(h.Context())
	h.ok(err)
	gone := h.open()
	h.member(gone.JoinServer(h.Context(), 0, "host:0"))
	h.member(gone.JoinTrainer(h.Context(), 0))
	h.ok(gone.Close())
	<-lost
	<-lost
	lingering := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	s := r.State(lingering)
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}}))
	near := h.openWith(Config{Prefix: h.prefix + "er"})
	h.member(near.JoinServer(h.Context(), 0, "host:3"))

	h.ok(r.Forget(h.Context()))
	if v := h.view(); len(v) != 2 || v[h.prefix+"/ps_desired"].value != "2" || v[h.prefix+"/trainers_desired"].value != "3" {
		h.Errorf("left: %v", v)
	}
	if err := s.Commit(h.Context(), []Change{{"a", []byte("2")}}); !errors.Is(err, fault.Fenced) {
		h.Errorf("a commit of an attempt that was forgotten: %v", err)
	}
	again := h.member(r.LeadCoordinator(h.Context(), "host:2"))
	if again.Fence() <= lingering.Fence() {
		h.Errorf("fence %d after %d", again.Fence(), lingering.Fence())
	}
	h.entries(r.State(again), nil)
	h.member(h.open().JoinTrainer(h.Context(), 0))
	h.ok(r.RevokeLease(h.Context(), trainer0, 0))
	if m := <-lost; m != trainer0 { // the first loss of this attempt
		h.Errorf("%v is lost, want trainer 0", m)
	}
	live, err := near.Live(h.Context())
	h.ok(err)
	if len(live) != 1 {
		h.Errorf("another job has %v", live)
	}
}

// What a job has in the store goes with it: with its listener, or after a listener that was killed. Jobs that somebody runs stay.
func testRemove(h *home) {
	r := h.open()
	owner := h.member(r.Claim(h.Context()))
	if _, err := h.open().Claim(h.Context()); !errors.Is(err, fault.Fenced) {
		h.Errorf("a second listener of the job: %v", err)
	}
	fill := func(r Registry) {
		h.Helper()
		h.ok(r.SetDesired(h.Context(), 2))
		h.ok(r.SetTrainers(h.Context(), 3))
		leader := h.member(r.LeadCoordinator(h.Context(), "host:1"))
		h.ok(r.State(leader).Commit(h.Context(), []Change{{"job/steps", []byte("7")}}))
		h.ok(h.member(r.JoinTrainer(h.Context(), 0)).Leave(h.Context()))
		h.ok(leader.Leave(h.Context()))
	}
	fill(r)
	if b, err := r.Entry(h.Context(), "job/steps"); string(b) != "7" || err != nil {
		h.Errorf("the entry is %q, %v", b, err)
	}
	if b, err := r.Entry(h.Context(), "job/none"); b != nil || err != nil {
		h.Errorf("an entry that does not exist is %q, %v", b, err)
	}
	near := h.openWith(Config{Prefix: h.prefix + "er"}) // a job whose name begins as that of the other one
	h.member(near.Claim(h.Context()))
	fill(near)
	before := len(h.view())
	removed, others, err := r.RemoveAbandoned(h.Context())
	h.ok(err)
	if slices.Contains(removed, "remove") || slices.Contains(removed, "remover") || !others || len(h.view()) != before {
		h.Errorf("removed %q, others %v, %d keys of %d", removed, others, len(h.view()), before)
	}
	h.ok(r.Remove(h.Context(), owner))
	if v := h.view(); len(v) != 0 {
		h.Errorf("left: %v", v)
	}
	h.ok(r.Close())

	next := h.open()
	h.member(next.Claim(h.Context()))
	fill(next)
	h.ok(next.Close()) // it was killed
	again := h.open()
	h.ok(again.Remove(h.Context(), owner)) // it is not the owner any more
	if v := h.view(); len(v) == 0 {
		h.Error("a listener has removed the job of another one")
	}
	if removed, _, err = again.RemoveAbandoned(h.Context()); err != nil || !slices.Contains(removed, "remove") || slices.Contains(removed, "remover") {
		h.Errorf("removed %q, %v", removed, err)
	}
	if v := h.view(); len(v) != 0 {
		h.Errorf("left: %v", v)
	}
}
