package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
)

// parts are the changes of two transactions, and what they come to.
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

// Of a commit that the store refuses at its first transaction nothing is durable, and others may follow. Of one that it refuses later a beginning is:
// its caller has to look before it commits anything else.
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

// A caller that gives up while a transaction is under way which was surely not made may have a beginning durable, too.
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

// blind is a store that does not tell how things are when to is set, which it then calls.
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
