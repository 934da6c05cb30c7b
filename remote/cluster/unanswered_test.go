package cluster

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
)

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

// A caller that gives up learns by Load, or by trying the same again, what has become of its commit.
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

// A request that was given up reaches the store when others have followed it, or when Load has said that it is not there.
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
	h.ok(s.Commit(h.Context(), []Change{{"a", []byte("1")}})) // by the third attempt
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

// Who took a key and did not hear of it has it; who did not take it does not count as lost.
func testClaimAnswerLost(h *home) {
	r := h.open().(*registry)
	script := &scripted{store: r.store}
	r.store = script
	lost, err := h.open().Lost(h.Context())
	h.ok(err)
	script.next = append(script.next, loseRequest, loseAnswer)
	if _, err := r.JoinTrainer(h.Context(), 0); !errors.Is(err, fault.Unavailable) {
		h.Fatalf("a claim that was lost: %v", err)
	}
	m := h.member(r.JoinTrainer(h.Context(), 0))
	h.live(r, map[Member]uint64{trainer0: m.Fence()})
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

// Who leaves without an answer has left, and may say so again until it has one.
func testLeaveAnswerLost(h *home) {
	r := h.open().(*registry)
	script := &scripted{store: r.store}
	r.store = script
	m := h.member(r.JoinTrainer(h.Context(), 0))
	script.next = append(script.next, loseRequest)
	if err := m.Leave(h.Context()); !errors.Is(err, fault.Unavailable) {
		h.Fatalf("leaving that was lost: %v", err)
	}
	h.live(r, map[Member]uint64{trainer0: m.Fence()})
	script.next = append(script.next, loseAnswer)
	h.ok(m.Leave(h.Context()))
	h.ok(m.Leave(h.Context()))
	h.live(r, map[Member]uint64{})
	lost, err := h.open().Lost(h.Context())
	h.ok(err)
	other := h.open()
	h.member(other.JoinTrainer(h.Context(), 1))
	h.ok(other.Close())
	if m := <-lost; m.Index != 1 {
		h.Errorf("%v is lost, want trainer 1", m)
	}
}
