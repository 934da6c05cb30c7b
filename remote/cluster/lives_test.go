package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
)

// lives are one coordinator after another, in one goroutine.
type lives struct {
	client   int
	open     func() (Registry, error)
	network  *network
	recorder *recorder
	commits  int // of one coordinator
	numbers  int // of the values so far
}

// lead is one coordinator from its election to its end.
func (l *lives) lead(ctx context.Context) error {
	opened, err := l.open()
	if err != nil {
		return unlessPassing(ctx, err)
	}
	defer opened.Close()
	r := opened.(*registry)
	net := &faulty{store: r.store, network: l.network}
	r.store = net
	call := l.recorder.clock.Add(1)
	m, err := r.LeadCoordinator(ctx, "host:1")
	if err != nil {
		return unlessPassing(ctx, err)
	}
	l.recorder.add(l.client, call, l.recorder.clock.Add(1), action{what: "lead", fence: m.Fence()}, outcome{})
	s := r.State(m)
	if loaded, err := l.load(ctx, s, m.Fence()); !loaded {
		return err
	}
	for range l.commits {
		if goes, err := l.commit(ctx, net, s, m.Fence()); !goes {
			return err
		}
	}
	if l.network.draw(3) > 0 {
		return unlessPassing(ctx, m.Leave(ctx))
	}
	return nil // closing ends the lease
}

// unlessPassing leaves out what a network and a lost lock explain.
func unlessPassing(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Fenced)) {
		return nil
	}
	return err
}

func (l *lives) load(ctx context.Context, s State, fence uint64) (bool, error) {
	call := l.recorder.clock.Add(1)
	entries, err := s.Load(ctx)
	if err != nil {
		return false, unlessPassing(ctx, err)
	}
	a, b := string(entries["a"]), string(entries["b"])
	if a != b {
		return false, fmt.Errorf("half of a commit: %q and %q", a, b)
	}
	l.recorder.add(l.client, call, l.recorder.clock.Add(1), action{what: "load", fence: fence}, outcome{value: a})
	return true, nil
}

// commit makes one commit, as often as that takes, and finds out by Load when it gives up. It reports whether the coordinator still leads.
func (l *lives) commit(ctx context.Context, net *faulty, s State, fence uint64) (bool, error) {
	l.numbers++
	value := fmt.Sprintf("%d of %d", l.numbers, l.client)
	a := action{"commit", fence, value}
	call := l.recorder.clock.Add(1)
	for {
		attempt, cancel := context.WithCancel(ctx)
		if l.network.draw(3) == 0 {
			net.failed = cancel // the caller gives up
		}
		err := s.Commit(attempt, []Change{{"a", []byte(value)}, {"b", []byte(value)}})
		net.failed = nil
		cancel()
		end := l.recorder.clock.Add(1)
		switch {
		case err == nil:
			l.recorder.add(l.client, call, end, a, outcome{})
			return true, nil
		case errors.Is(err, fault.Fenced):
			l.recorder.add(l.client, call, end, a, outcome{kind: fault.Fenced})
			return false, nil
		case ctx.Err() != nil || !errors.Is(err, fault.Canceled) && !errors.Is(err, fault.Unavailable):
			return false, err
		case l.network.draw(2) == 0:
			continue // the same once more
		}
		loaded, err := l.load(ctx, s, fence)
		end = math.MaxInt64 - 1
		if loaded { // and then it is not under way any more
			end = l.recorder.clock.Add(1)
		}
		l.recorder.add(l.client, call, end, a, outcome{kind: fault.Unavailable})
		return loaded, err
	}
}
