package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// jumping is a store that shows followers of prefix only the views of a test, as after an interruption.
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

// until receives values until want comes.
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
	coordinators, err := watcher.WatchAddress(h.Context(), coordinator)
	h.ok(err)
	servers, err := watcher.WatchAddress(h.Context(), server0)
	h.ok(err)
	if first := <-coordinators; first != "" {
		h.Fatalf("at first %q", first)
	}
	h.member(h.open().JoinServer(h.Context(), 0, "host:5"))
	until(h, servers, "host:5")
	first := h.member(h.open().LeadCoordinator(h.Context(), "host:1"))
	until(h, coordinators, "host:1")
	h.ok(first.Leave(h.Context()))
	until(h, coordinators, "")
	second := h.open()
	h.member(second.LeadCoordinator(h.Context(), "host:2"))
	until(h, coordinators, "host:2")
	// Nobody receives for a while: the next value is the latest.
	h.ok(second.Close())
	third := h.member(h.open().LeadCoordinator(h.Context(), "host:3"))
	until(h, coordinators, "host:3")
	h.ok(third.Leave(h.Context()))
	until(h, coordinators, "")
	if _, err := watcher.WatchAddress(h.Context(), trainer0); !errors.Is(err, fault.InvalidArgument) {
		h.Errorf("the address of a trainer: %v", err)
	}
	h.ok(watcher.Close())
	for address := range servers {
		h.Errorf("told %q after closing", address)
	}
	if _, err := watcher.WatchAddress(h.Context(), coordinator); !errors.Is(err, fault.Canceled) {
		h.Errorf("following on a closed registry: %v", err)
	}
}

// The pserver that has set the number of pservers dies first: the others still know the number.
func testFirstServerDiesFirst(h *home) {
	first := h.open()
	h.ok(first.SetDesired(h.Context(), 2))
	h.member(first.JoinServer(h.Context(), AnyIndex, "host:0"))
	second := h.open()
	h.member(second.JoinServer(h.Context(), AnyIndex, "host:1"))
	h.ok(first.Close())
	for _, r := range []Registry{second, h.open()} {
		if n, err := r.Desired(h.Context()); n != 2 || err != nil {
			h.Fatalf("desired %d, %v", n, err)
		}
	}
	again := h.member(h.open().JoinServer(h.Context(), AnyIndex, "host:2"))
	if again.Member() != server0 {
		h.Fatalf("%v took the free index", again.Member())
	}
}

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
	m := h.member(r.JoinServer(h.Context(), 0, "host:1"))
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
	h.member(r.JoinServer(h.Context(), 7, "host:7"))
	h.member(r.JoinServer(h.Context(), 1, "host:1"))
	if a := <-one; a.err != nil || a.addresses[0] != "host:1" {
		h.Errorf("server 1: %v", a)
	}
	h.member(r.JoinServer(h.Context(), 0, "host:0"))
	if a := <-all; a.err != nil || !slices.Equal(a.addresses, []string{"host:0", "host:1"}) {
		h.Errorf("servers: %v", a)
	}
}

func testNodes(h *home) {
	r := h.open()
	b := h.member(r.RegisterNode(h.Context(), "b", "host:2"))
	h.member(h.openWith(Config{Prefix: Prefix("other")}).RegisterNode(h.Context(), "a", "host:1"))
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
	near, far := h.open(), h.openWith(Config{Prefix: h.prefix + "er"})
	lost, err := near.WatchLost(h.Context())
	h.ok(err)
	h.member(far.JoinServer(h.Context(), 0, "host:1"))
	h.member(near.JoinServer(h.Context(), 0, "host:2"))
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
	_, claim := r.JoinServer(h.Context(), 0, "host:1")
	_, lost := r.WatchLost(h.Context())
	for what, err := range map[string]error{"a wait": <-ended, "a claim": claim, "lost": lost, "desired": r.SetDesired(h.Context(), 1)} {
		if !errors.Is(err, fault.Canceled) || !strings.Contains(err.Error(), "closed") {
			h.Errorf("%s on a closed registry: %v", what, err)
		}
	}
}

func testMissing(h *home) {
	owner := h.open()
	h.member(owner.JoinServer(h.Context(), 1, "host:1"))
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
