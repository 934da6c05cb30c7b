// Package follow lets a served model have the parameters of the checkpoints that a job writes while it trains on, so that requests are answered by what was trained a moment ago.
//
//	s, err := follow.Checkpoints(ctx, "s3://models/clicks")
//	...
//	defer s.Close()
//	m, err := serving.Open("served", serving.WithSource(s), serving.WithReload(time.Second))
package follow

import (
	"context"
	"sync"

	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// Source has the parameters of the newest checkpoint at an address.
type Source struct {
	mu       sync.Mutex
	follower *checkpoint.Follower
}

// Checkpoints returns a source for an address as "edl checkpoint" takes it: STORE for the last run in a store, STORE@JOB for a job, STORE@STEPS for one checkpoint. There need not be a checkpoint yet.
// ctx says what may be read. Close closes the store, after the model.
func Checkpoints(ctx context.Context, address string) (*Source, error) {
	f, err := checkpoint.Follow(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Source{follower: f}, nil
}

// Newest returns the newest complete checkpoint.
func (s *Source) Newest(ctx context.Context) (serving.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.follower.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return &state{c}, nil
}

// Changed reports whether the store has other complete checkpoints than at the last call.
func (s *Source) Changed(ctx context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follower.Changed(ctx)
}

// Close closes the store.
func (s *Source) Close() error { return s.follower.Close() }

// A state is a checkpoint as parameters of a model.
type state struct{ *checkpoint.Checkpoint }

func (s *state) Name() string { return s.Checkpoint.Name }

func (s *state) Same(variable string, since serving.State) bool {
	return s.Checkpoint.Same(variable, since.(*state).Checkpoint)
}

func (s *state) Load(ctx context.Context, variable string, since serving.State, into *tensor.Tensor) error {
	if since == nil {
		return s.Checkpoint.Load(ctx, variable, 0, into)
	}
	return s.Update(ctx, variable, since.(*state).Checkpoint, into)
}
