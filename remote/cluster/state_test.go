package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/edl-go/edl/fault"
)

func testState(h *home) {
	r := h.open()
	leader := h.member(r.LeadCoordinator(h.Context(), "host:1"))
	s := r.State(leader)
	if r.State(leader) != s {
		h.Error("two states of one coordinator")
	}
	if entries, err := s.Load(h.Context()); len(entries) != 0 || err != nil {
		h.Fatalf("at first %v, %v", entries, err)
	}
	h.ok(s.Commit(h.Context(), []Change{{"a/x", []byte("1")}, {"a/y", []byte{}}, {"b", []byte("2")}}))
	h.ok(s.Commit(h.Context(), []Change{{"a/x", []byte("3")}, {"b", nil}, {"c", []byte("4")}, {"c", []byte("5")}, {"d", []byte("6")}, {"d", nil}}))
	h.ok(s.Commit(h.Context(), nil))
	h.entries(s, map[string]string{"a/x": "3", "a/y": "", "c": "5"})
	h.ok(leader.Leave(h.Context()))
	young := h.member(h.open().LeadCoordinator(h.Context(), "host:2"))
	h.entries(h.open().State(young), map[string]string{"a/x": "3", "a/y": "", "c": "5"})
}

// entries fails unless s holds want.
func (h *home) entries(s State, want map[string]string) {
	h.Helper()
	got, err := s.Load(h.Context())
	h.ok(err)
	for key, value := range got {
		if w, ok := want[key]; !ok || w != string(value) {
			h.Errorf("%s is %q, want %q, %v", key, value, w, ok)
		}
	}
	if len(got) != len(want) {
		h.Errorf("%d entries, want %d", len(got), len(want))
	}
}

// More entries than a page, more changes than a transaction, more bytes than a transaction.
func testLargeState(h *home) {
	ctx, cancel := context.WithTimeout(h.Context(), patience/3) // what is too large may be tried for ever
	defer cancel()
	r := h.open()
	s := r.State(h.member(r.LeadCoordinator(h.Context(), "host:1")))
	want := map[string]string{}
	var changes []Change
	for i := range 3*pageEntries + 1 {
		key := fmt.Sprintf("task/%d", i)
		changes = append(changes, Change{key, []byte(key)})
		want[key] = key
	}
	h.ok(s.Commit(ctx, changes))
	h.entries(s, want)
	big := bytes.Repeat([]byte("x"), MaxBytes/2)
	changes = nil
	for i := range 5 {
		key := fmt.Sprintf("big/%d", i)
		changes = append(changes, Change{key, big})
		want[key] = string(big)
	}
	h.ok(s.Commit(ctx, changes))
	h.entries(s, want)
}

func testStateRefuses(h *home) {
	r := h.open()
	s := r.State(h.member(r.LeadCoordinator(h.Context(), "host:1")))
	for _, key := range []string{"", "/a", "a/", "a//b", "a\x00", "a\xff", strings.Repeat("a", maxKey+1)} {
		if err := s.Commit(h.Context(), []Change{{"good", []byte("1")}, {key, nil}}); !errors.Is(err, fault.InvalidArgument) {
			h.Errorf("key %q: %v", key, err)
		}
	}
	if err := s.Commit(h.Context(), []Change{{"good", []byte("1")}, {"a", make([]byte, MaxBytes)}}); !errors.Is(err, fault.TooLarge) {
		h.Errorf("a value that no transaction takes: %v", err)
	}
	h.entries(s, nil)
	other := r.State(h.member(r.ClaimServer(h.Context(), 0, "host:1")))
	_, load := other.Load(h.Context())
	if commit := other.Commit(h.Context(), nil); !errors.Is(load, fault.InvalidArgument) || !errors.Is(commit, fault.InvalidArgument) {
		h.Errorf("the state of a pserver: %v, %v", load, commit)
	}
}

// A coordinator that has lost the lock changes nothing, whether it knows of its loss or not.
func testStateFenced(h *home) {
	a, b := h.openAt(h.prefix, shortLease), h.open()
	old := h.member(a.LeadCoordinator(h.Context(), "host:1"))
	late := a.State(old)
	h.ok(late.Commit(h.Context(), []Change{{"a", []byte("old")}}))
	h.end(h.prefix, coordinator)
	unaware := func() {
		if err := late.Commit(h.Context(), []Change{{"a", []byte("late")}, {"b", []byte("late")}}); !errors.Is(err, fault.Fenced) {
			h.Errorf("a commit without the lock: %v", err)
		}
		if _, err := late.Load(h.Context()); !errors.Is(err, fault.Fenced) {
			h.Errorf("a load without the lock: %v", err)
		}
	}
	unaware() // nobody holds the lock
	young := b.State(h.member(b.LeadCoordinator(h.Context(), "host:2")))
	unaware()
	h.entries(young, map[string]string{"a": "old"})
	h.ok(young.Commit(h.Context(), []Change{{"a", []byte("young")}}))
	unaware()
	<-old.Done()
	unaware()
	h.entries(young, map[string]string{"a": "young"})
}
