package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
)

// begin waits for the turn.
func (s *state) begin(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := s.leader.registry.scope(ctx)
	select {
	case <-s.turn:
		return ctx, func() {
			cancel()
			s.turn <- struct{}{}
		}, nil
	case <-ctx.Done():
		defer cancel()
		return nil, nil, fault.E(contextKind(ctx), fault.At(s.key(stateKey)), fault.Got("no end of waiting for the commit before"),
			fault.Cause(context.Cause(ctx)))
	}
}

// try calls f until it succeeds or fails for good, ctx ends, or the lease is lost.
func (s *state) try(ctx context.Context, f func(context.Context) error) error {
	var last error
	for patience, pause := commitAttempt, commitPause; ; patience, pause = min(2*patience, requestTimeout), min(2*pause, longestPause) {
		select {
		case <-s.leader.Done():
			return s.fenced()
		case <-ctx.Done():
			return storeFault(ctx, s.key(stateKey), cmp.Or(last, ctx.Err()))
		default:
		}
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := f(attempt)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		last = err
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.leader.Done():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// passing reports whether an error of the store may pass.
func passing(err error) bool {
	return fault.KindOf(err) == fault.Unavailable || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
