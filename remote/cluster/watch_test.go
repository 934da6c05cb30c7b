package cluster

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
)

// jumping is a store whose followers of prefix see only the views that a test shows, as after an interruption.
type jumping struct {
	store
	prefix string
	views  chan view
}

func (j *jumping) follow(ctx context.Context, prefix string, see func(view) bool) error {
	if prefix != j.prefix {
		return j.store.follow(ctx, prefix, see)
	}
	for {
		select {
		case v := <-j.views:
			if see(v) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until receives until it has got want: what lies between may be left out.
func until[T comparable](h *home, from <-chan T, want T) {
	h.Helper()
	for got := range from {
		if got == want {
			return
		}
	}
	h.Fatalf("%v never came", want)
}

func testTrainers(h *home) {
	r := h.open()
	wanted, err := h.open().WatchTrainers(h.Context())
	h.ok(err)
	h.ok(r.SetTrainers(h.Context(), 2))
	if n := <-wanted; n != 2 {
		h.Fatalf("wanted %d, want 2", n)
	}
	m := h.member(r.JoinTrainer(h.Context(), 0))
	h.ok(r.SetTrainers(h.Context(), 5))
	until(h, wanted, 5)
	h.ok(r.SetTrainers(h.Context(), 5)) // no change
	h.ok(r.Close())
	<-m.Done()
	last := h.open()
	if n, err := last.Trainers(h.Context()); n != 5 || err != nil {
		h.Fatalf("trainers %d, %v after who said it has gone", n, err)
	}
	select {
	case n := <-wanted:
		h.Errorf("told %d again", n)
	default:
	}
	late, err := last.WatchTrainers(h.Context())
	h.ok(err)
	if n := <-late; n != 5 {
		h.Errorf("a late watcher is told %d", n)
	}
	h.ok(last.Close())
	for n := range late {
		h.Errorf("told %d after closing", n)
	}
}

func testFollow(h *home) {
	watcher := h.open()
	coordinators, err := watcher.Follow(h.Context(), coordinator)
	h.ok(err)
	servers, err := watcher.Follow(h.Context(), server0)
	h.ok(err)
	if first := <-coordinators; first != "" {
		h.Fatalf("at first %q", first)
	}
	h.member(h.open().ClaimServer(h.Context(), 0, "host:5"))
	until(h, servers, "host:5")
	first := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	until(h, coordinators, "host:1")
	h.ok(first.Leave(h.Context()))
	until(h, coordinators, "")
	second := h.open()
	h.member(second.LeadCoordinator(h.Context(), "host:2"))
	until(h, coordinators, "host:2")
	// Nobody receives for a while: what is received then is the latest.
	h.ok(second.Close())
	third := h.member(h.open().LeadCoordinator(h.Context(), "host:3"))
	until(h, coordinators, "host:3")
	h.ok(third.Leave(h.Context()))
	until(h, coordinators, "")
	if _, err := watcher.Follow(h.Context(), trainer0); !errors.Is(err, fault.InvalidArgument) {
		h.Errorf("the address of a trainer: %v", err)
	}
	h.ok(watcher.Close())
	for address := range servers {
		h.Errorf("told %q after closing", address)
	}
	if _, err := watcher.Follow(h.Context(), coordinator); !errors.Is(err, fault.Canceled) {
		h.Errorf("following on a closed registry: %v", err)
	}
}

// The pserver that said how many there are dies first: its successors still know.
func testFirstServerDiesFirst(h *home) {
	first := h.open()
	h.ok(first.SetDesired(h.Context(), 2))
	h.member(first.ClaimServer(h.Context(), AnyIndex, "host:0"))
	second := h.open()
	h.member(second.ClaimServer(h.Context(), AnyIndex, "host:1"))
	h.ok(first.Close())
	for _, r := range []Registry{second, h.open()} {
		if n, err := r.Desired(h.Context()); n != 2 || err != nil {
			h.Fatalf("desired %d, %v", n, err)
		}
	}
	again := h.member(h.open().ClaimServer(h.Context(), AnyIndex, "host:2"))
	if again.Member() != server0 {
		h.Fatalf("%v took the free index", again.Member())
	}
}
