package cluster

import "context"

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
