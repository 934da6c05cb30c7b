package cluster

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
)

// Commit goes on with the batch that is open, if that is what changes are, or begins one.
func (s *state) Commit(ctx context.Context, changes []Change) error {
	b, err := newBatch(s.key(stateKey), changes)
	if err != nil {
		return err
	}
	ctx, release, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case s.open == nil:
		s.open = b
	case s.open.same(b):
	case s.deposed:
		return s.fenced()
	default:
		return fault.E(fault.Unavailable, fault.At(s.key(stateKey)), fault.Got("a commit before it of which some may be durable"),
			fault.Hint("load the state first"))
	}
	err = s.try(ctx, s.advance)
	fenced := fault.KindOf(err) == fault.Fenced
	switch {
	case fenced && s.open.tried: // nobody here will know any more
		s.deposed = true
		err = fault.E(fault.Unavailable, fault.At(s.key(lockKey)),
			fault.Gotf("a commit without an answer when the coordinator of fence %d lost the lock", s.leader.created),
			fault.Hint("its successor loads what has become of it"))
	case err == nil, fenced, !s.open.tried && s.open.next == 0:
		s.open = nil
	}
	return err
}

// advance makes the rest of the open batch durable. It may be called again after an error, and begins then with the transaction that failed: those
// before are durable.
func (s *state) advance(ctx context.Context) error {
	if s.last == unknownRevision {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	for b := s.open; b.next < len(b.parts); {
		if !b.tried {
			s.number++
			b.token = s.token()
		}
		part := b.parts[b.next]
		t := txn{when: s.conditions(s.last), deletes: part.deletes, puts: append(slices.Clip(part.puts), put{key: s.key(commitKey), value: b.token})}
		revision, ok, err := s.leader.registry.store.commit(ctx, t)
		switch {
		case err != nil && refused(err):
			return err
		case err != nil:
			b.tried = true
			return err
		case !ok:
			if revision, err = s.outcome(ctx); err != nil {
				return err
			}
		}
		s.last = revision
		b.next++
		b.tried = false
	}
	return nil
}

// refused reports whether an error of commit says that the store did not even try.
func refused(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.InvalidArgument || kind == fault.TooLarge
}

// outcome tells what it means that the conditions of a transaction did not hold: the revision of an earlier attempt that was successful, or an error.
func (s *state) outcome(ctx context.Context) (int64, error) {
	now, err := s.look(ctx)
	switch {
	case err != nil:
		return 0, err
	case now.commit.value == s.open.token:
		return now.commit.modified, nil
	case now.lock != s.leader.created:
		if now.commit.modified == s.last {
			s.open.tried = false // and without the lock it never will be applied
		}
		return 0, s.fenced()
	}
	return 0, fault.E(fault.Internal, fault.At(s.key(commitKey)), fault.Got(fault.Quote(now.commit.value)),
		fault.Want("the last commit of the coordinator that holds the lock"))
}
