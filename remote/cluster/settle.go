package cluster

import (
	"context"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Load settles what is open and reads all.
func (s *state) Load(ctx context.Context) (map[string][]byte, error) {
	ctx, release, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.try(ctx, s.settle); err != nil {
		return nil, err
	}
	s.open = nil
	var entries map[string][]byte
	err = s.try(ctx, func(ctx context.Context) (err error) {
		entries, err = s.read(ctx)
		return err
	})
	return entries, err
}

// settle makes sure that nothing is under way, and learns the revision of commitKey.
func (s *state) settle(ctx context.Context) error {
	now, err := s.look(ctx)
	if err != nil {
		return err
	}
	if now.lock != s.leader.created {
		return s.fenced()
	}
	if s.open != nil && s.open.tried && now.commit.value != s.open.token {
		// Perhaps it comes yet. Writing commitKey excludes that; should the open one be faster, the condition fails, and the next look shows it.
		s.number++
		t := txn{when: s.conditions(now.commit.modified), puts: []put{{key: s.key(commitKey), value: s.token()}}}
		revision, ok, err := s.leader.registry.store.commit(ctx, t)
		if err == nil && !ok {
			err = errUnsettled
		}
		now.commit.modified = revision
		if err != nil {
			return err
		}
	}
	s.last = now.commit.modified
	return nil
}

var errUnsettled = fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("a commit that was on its way"))

// holding is what decides about a transaction.
type holding struct {
	lock   int64 // create revision; 0: nobody holds it
	commit entry
}

func (s *state) look(ctx context.Context) (holding, error) {
	v, err := s.leader.registry.store.get(ctx, s.key(lockKey), s.key(commitKey))
	return holding{lock: v[s.key(lockKey)].created, commit: v[s.key(commitKey)]}, err
}

func (s *state) read(ctx context.Context) (map[string][]byte, error) {
	entries, size := map[string][]byte{}, 0
	prefix := s.key(stateKey)
	err := s.leader.registry.store.scan(ctx, prefix, func(key string, e entry) error {
		if size += len(key) + len(e.value); size > maxState {
			return fault.E(fault.TooLarge, fault.At(prefix), fault.Got("a larger state"), fault.Wantf("at most %d bytes", maxState))
		}
		entries[strings.TrimPrefix(key, prefix)] = []byte(e.value)
		return nil
	})
	return entries, err
}
