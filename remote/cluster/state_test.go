package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
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
	other := r.State(h.member(r.JoinServer(h.Context(), 0, "host:1")))
	_, load := other.Load(h.Context())
	if commit := other.Commit(h.Context(), nil); !errors.Is(load, fault.InvalidArgument) || !errors.Is(commit, fault.InvalidArgument) {
		h.Errorf("the state of a pserver: %v, %v", load, commit)
	}
}

// A coordinator that has lost the lock changes nothing, whether it knows of its loss or not.
func testStateFenced(h *home) {
	a, b := h.openWith(watchful), h.open()
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

// scripted is a store whose commits a test answers.
type scripted struct {
	store
	next []func(forward func() (int64, bool, error)) (int64, bool, error) // for one commit each; the rest is forwarded
}

func (s *scripted) commit(ctx context.Context, t txn) (int64, bool, error) {
	forward := func() (int64, bool, error) { return s.store.commit(context.WithoutCancel(ctx), t) }
	if len(s.next) == 0 {
		return forward()
	}
	first := s.next[0]
	s.next = s.next[1:]
	return first(forward)
}

func loseAnswer(forward func() (int64, bool, error)) (int64, bool, error) {
	if _, _, err := forward(); err != nil {
		return 0, false, err
	}
	return 0, false, errLost
}

func loseRequest(func() (int64, bool, error)) (int64, bool, error) { return 0, false, errLost }

// leading returns a coordinator's state over a scripted store.
func (h *home) leading() (*scripted, State) {
	h.Helper()
	r := h.open().(*registry)
	script := &scripted{store: r.store}
	r.store = script
	s := r.State(h.member(r.LeadCoordinator(h.Context(), "host:1")))
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("0")}}))
	return script, s
}

func testAnswerLost(h *home) {
	script, s := h.leading()
	commits := 0
	count := func(then func(func() (int64, bool, error)) (int64, bool, error)) func(func() (int64, bool, error)) (int64, bool, error) {
		return func(forward func() (int64, bool, error)) (int64, bool, error) {
			revision, ok, err := then(forward)
			if ok {
				commits++
			}
			return revision, ok, err
		}
	}
	forward := func(forward func() (int64, bool, error)) (int64, bool, error) { return forward() }
	script.next = append(script.next, loseAnswer, count(forward), count(forward))
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}}))
	if commits != 0 {
		h.Error("the commit was made twice")
	}
	h.ok(s.Commit(h.Context(), []Change{{"b", []byte("2")}}))
	h.entries(s, map[string]string{"a": "1", "b": "2"})
}

// A caller that gives up finds out by Load, or by the same Commit again, whether its commit was made.
func testGivenUp(h *home) {
	script, s := h.leading()
	one, other := []Change{{"a", []byte("1")}}, []Change{{"b", []byte("2")}}
	for i, lose := range []func(func() (int64, bool, error)) (int64, bool, error){loseRequest, loseAnswer, loseRequest, loseAnswer} {
		h.ok(s.Commit(h.Context(), []Change{{"a", []byte("0")}, {"b", nil}}))
		ctx, cancel := context.WithCancel(h.Context())
		script.next = append(script.next, func(forward func() (int64, bool, error)) (int64, bool, error) {
			defer cancel()
			return lose(forward)
		})
		if err := s.Commit(ctx, one); !errors.Is(err, fault.Canceled) {
			h.Fatalf("given up: %v", err)
		}
		if err := s.Commit(h.Context(), other); !errors.Is(err, fault.Unavailable) {
			h.Fatalf("another commit before the first is known: %v", err)
		}
		want := map[string]string{"a": "1", "b": "2"}
		if i < 2 {
			h.ok(s.Commit(h.Context(), one))
		} else {
			want["a"] = []string{"0", "1"}[i-2]
			h.entries(s, map[string]string{"a": want["a"]})
		}
		h.ok(s.Commit(h.Context(), other))
		h.entries(s, want)
	}
}

// A Load is given up as well, while it excludes the commit before it. The same Commit can then be made, and is applied once.
func testLoadGivenUp(h *home) {
	script, s := h.leading()
	for i, first := range []func(func() (int64, bool, error)) (int64, bool, error){loseRequest, loseAnswer} {
		one := []Change{{"a", []byte(fmt.Sprint(i + 1))}}
		ctx, cancel := context.WithCancel(h.Context())
		script.next = append(script.next, func(forward func() (int64, bool, error)) (int64, bool, error) {
			defer cancel()
			return first(forward)
		})
		if err := s.Commit(ctx, one); !errors.Is(err, fault.Canceled) {
			h.Fatalf("given up: %v", err)
		}
		ctx, cancel = context.WithCancel(h.Context())
		script.next = append(script.next, func(forward func() (int64, bool, error)) (int64, bool, error) {
			defer cancel()
			return loseAnswer(forward)
		})
		if _, err := s.Load(ctx); err == nil { // the commit was applied, and Load had nothing to write
			script.next = nil
		} else if !errors.Is(err, fault.Canceled) {
			h.Fatalf("a load that is given up: %v", err)
		}
		cancel()
		h.ok(s.Commit(h.Context(), one))
		h.entries(s, map[string]string{"a": fmt.Sprint(i + 1)})
	}
}

// A request that was given up reaches the store late: after other commits, or after a Load that has not seen it. It changes nothing.
func testLate(h *home) {
	script, s := h.leading()
	var late []func() (int64, bool, error)
	keep := func(forward func() (int64, bool, error)) (int64, bool, error) {
		late = append(late, forward)
		return 0, false, errLost
	}
	deliver := func() {
		h.Helper()
		for _, forward := range late {
			if _, ok, err := forward(); ok || err != nil {
				h.Errorf("a late request is applied: %v, %v", ok, err)
			}
		}
		late = nil
	}
	script.next = append(script.next, keep, keep)
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}})) // by the third try
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("2")}}))
	deliver()
	ctx, cancel := context.WithCancel(h.Context())
	script.next = append(script.next, func(forward func() (int64, bool, error)) (int64, bool, error) {
		defer cancel()
		return keep(forward)
	})
	if err := s.Commit(ctx, []Change{{"a", []byte("3")}}); !errors.Is(err, fault.Canceled) {
		h.Fatalf("given up: %v", err)
	}
	h.entries(s, map[string]string{"a": "2"})
	deliver()
	h.entries(s, map[string]string{"a": "2"})
}

// A member whose key was created without an answer has the key. A member whose key was not created does not count as lost.
func testClaimAnswerLost(h *home) {
	r := h.open().(*registry)
	script := &scripted{store: r.store}
	r.store = script
	lost, err := h.open().WatchLost(h.Context())
	h.ok(err)
	script.next = append(script.next, loseRequest, loseAnswer)
	if _, err := r.JoinTrainer(h.Context(), 0); !errors.Is(err, fault.Unavailable) {
		h.Fatalf("a claim that was lost: %v", err)
	}
	m := h.member(r.JoinTrainer(h.Context(), 0))
	h.live(r, map[Member]id.Incarnation{trainer0: m.Incarnation()})
	select {
	case <-m.Done():
		h.Error("its lease was given up")
	default:
	}
	h.ok(m.Leave(h.Context()))
	other := h.open()
	h.member(other.JoinTrainer(h.Context(), 1))
	h.ok(other.Close())
	if m := <-lost; m.Index != 1 {
		h.Errorf("%v is lost, want trainer 1", m)
	}
}

// A member that leaves without an answer has left, and may call Leave again.
func testLeaveAnswerLost(h *home) {
	r := h.open().(*registry)
	script := &scripted{store: r.store}
	r.store = script
	m := h.member(r.JoinTrainer(h.Context(), 0))
	script.next = append(script.next, loseRequest)
	if err := m.Leave(h.Context()); !errors.Is(err, fault.Unavailable) {
		h.Fatalf("leaving that was lost: %v", err)
	}
	h.live(r, map[Member]id.Incarnation{trainer0: m.Incarnation()})
	script.next = append(script.next, loseAnswer)
	h.ok(m.Leave(h.Context()))
	h.ok(m.Leave(h.Context()))
	h.live(r, map[Member]id.Incarnation{})
	lost, err := h.open().WatchLost(h.Context())
	h.ok(err)
	other := h.open()
	h.member(other.JoinTrainer(h.Context(), 1))
	h.ok(other.Close())
	if m := <-lost; m.Index != 1 {
		h.Errorf("%v is lost, want trainer 1", m)
	}
}

// parts returns changes for two transactions, and the entries after the first and after both.
func parts() (changes []Change, first, both map[string]string) {
	first, both = map[string]string{}, map[string]string{}
	for i := range MaxChanges + 1 {
		key := fmt.Sprintf("task/%d", i)
		changes = append(changes, Change{key, []byte("1")})
		if both[key] = "1"; i < MaxChanges {
			first[key] = "1"
		}
	}
	return changes, first, both
}

func makeIt(forward func() (int64, bool, error)) (int64, bool, error) { return forward() }

func refuseIt(func() (int64, bool, error)) (int64, bool, error) {
	return 0, false, fault.New(fault.TooLarge, "request is too large")
}

// When the store refuses the first transaction of a commit, nothing is durable and other commits may follow. When it refuses a later transaction, the
// ones before are durable: the caller must load before it commits anything else.
func testRefused(h *home) {
	script, s := h.leading()
	other := []Change{{"b", []byte("2")}}
	script.next = append(script.next, refuseIt)
	changes, first, _ := parts()
	if err := s.Commit(h.Context(), changes); !errors.Is(err, fault.TooLarge) {
		h.Fatalf("refused: %v", err)
	}
	h.ok(s.Commit(h.Context(), other))
	h.entries(s, map[string]string{"a": "0", "b": "2"})

	script.next = append(script.next, makeIt, refuseIt, refuseIt)
	for range 2 {
		if err := s.Commit(h.Context(), changes); !errors.Is(err, fault.TooLarge) {
			h.Fatalf("refused: %v", err)
		}
		if err := s.Commit(h.Context(), other); !errors.Is(err, fault.Unavailable) {
			h.Fatalf("another commit before the beginning is known: %v", err)
		}
	}
	first["a"], first["b"] = "0", "2"
	h.entries(s, first)
	h.ok(s.Commit(h.Context(), other))
}

// A caller gives up after a transaction that was surely not made. The transactions before it are durable, so other commits must wait for Load.
func testGivenUpBetween(h *home) {
	script, s := h.leading()
	changes, _, both := parts()
	ctx, cancel := context.WithCancel(h.Context())
	blind := &blind{store: script.store}
	script.store = blind
	script.next = append(script.next, makeIt, func(func() (int64, bool, error)) (int64, bool, error) {
		blind.to = cancel
		return 0, false, nil
	})
	if err := s.Commit(ctx, changes); !errors.Is(err, fault.Canceled) {
		h.Fatalf("given up: %v", err)
	}
	if err := s.Commit(h.Context(), []Change{{"b", []byte("2")}}); !errors.Is(err, fault.Unavailable) {
		h.Fatalf("another commit before the beginning is known: %v", err)
	}
	h.ok(s.Commit(h.Context(), changes))
	both["a"] = "0"
	h.entries(s, both)
}

// blind is a store whose get calls to, if it is set, and fails.
type blind struct {
	store
	to func()
}

func (b *blind) get(ctx context.Context, keys ...string) (view, error) {
	if b.to == nil {
		return b.store.get(ctx, keys...)
	}
	b.to()
	b.to = nil
	return nil, errLost
}
