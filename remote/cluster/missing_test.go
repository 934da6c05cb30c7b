package cluster

import (
	"context"
	"errors"
	"strings"

	"github.com/edl-go/edl/fault"
)

func testMissing(h *home) {
	owner := h.open()
	h.member(owner.ClaimServer(h.Context(), 1, "host:1"))
	r := h.open().(*registry)
	seen := &seeing{store: r.store}
	r.store = seen
	for _, c := range []struct {
		wait func(context.Context) error
		says []string
	}{
		{func(ctx context.Context) error { _, err := r.Desired(ctx); return err }, []string{"/ps_desired", "the number of pservers"}},
		{func(ctx context.Context) error { _, err := r.Servers(ctx, 4); return err }, []string{h.prefix + "/ps/", "pserver 0, 2, 3 of 4"}},
		{func(ctx context.Context) error { _, err := r.Servers(ctx, 1000); return err }, []string{"pserver 0, 2, 3", "... of 1000"}},
		{func(ctx context.Context) error { _, err := r.Server(ctx, 2); return err }, []string{"/ps/2", "pserver 2"}},
		{func(ctx context.Context) error { _, err := r.Coordinator(ctx); return err }, []string{"/master/addr", "coordinator"}},
	} {
		for _, kind := range []fault.Kind{fault.Canceled, fault.DeadlineExceeded} {
			over := &ending{Context: h.Context(), done: make(chan struct{}), err: context.Canceled}
			if kind == fault.DeadlineExceeded {
				over.err = context.DeadlineExceeded
			}
			seen.then = func() { close(over.done) }
			err := c.wait(over)
			if !errors.Is(err, kind) {
				h.Fatalf("error %v, want %v", err, kind)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					h.Errorf("error %q does not say %q", err, s)
				}
			}
		}
	}
}

// seeing is a store that tells when a follower has seen its first view.
type seeing struct {
	store
	then func()
}

func (s *seeing) follow(ctx context.Context, prefix string, see func(view) bool) error {
	first := true
	return s.store.follow(ctx, prefix, func(v view) bool {
		enough := see(v)
		if first {
			first = false
			s.then()
		}
		return enough
	})
}

// ending is a context that ends with err when a test says so.
type ending struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *ending) Done() <-chan struct{} { return c.done }

func (c *ending) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}
