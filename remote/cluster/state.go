package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/edl-go/edl/fault"
)

// A State is what the coordinator of a job keeps, as small entries below /edl/<job>/task_queues/. Its methods may be called concurrently; they follow
// one another. They wait for the store until ctx ends or the lease of the lock is lost.
type State interface {
	// Load returns all entries by key, read in pages at one revision. It fails with fault.Fenced when the membership no longer holds the lock. When it
	// returns no error, no earlier Commit is under way any more: the entries are what the next Commit changes.
	Load(ctx context.Context) (map[string][]byte, error)
	// Commit makes the changes durable, in order: all or none when there are at most MaxChanges that hold at most MaxBytes, else in several transactions
	// of that size. Changes that are empty tell whether the lock is held. The outcome is one of three:
	//   - nil: all changes are durable;
	//   - fault.Fenced: the membership no longer holds the lock. The transaction at which that was found changed nothing and never will;
	//   - fault.Unavailable, fault.DeadlineExceeded or fault.Canceled: it is not known whether the changes were made. Commit again with
	//     the same changes finds out and goes on; any others are refused with fault.Unavailable until Load has told how things are. When the lock
	//     was lost in between, only the next coordinator finds out: the same changes fail so again, others and Load with fault.Fenced.
	//
	// Changes that cannot be committed fail with fault.InvalidArgument or fault.TooLarge: at once, and nothing is changed, or because the store refuses
	// a transaction, which only the store can know. Then those before it are durable, and unless it is the first, others are refused until Load, too.
	Commit(ctx context.Context, changes []Change) error
}

// A Change puts an entry or, with a nil Value, deletes it.
type Change struct {
	Key   string // relative: names separated by '/'
	Value []byte
}

const (
	commitAttempt = time.Second          // after which a transaction is tried again, perhaps at another server; doubled each time
	commitPause   = 5 * time.Millisecond // between attempts; doubled each time, until
	longestPause  = 200 * time.Millisecond
	maxState      = 256 << 20 // bytes that Load accepts
)

// state is the State of one membership.
//
// Each transaction is conditioned on the lock, and on the one before it by the revision of commitKey, which all of them write. So an attempt that was
// given up, but lingers somewhere between here and the store, can never be applied after a later one; and what became of an attempt without an
// answer can be read from commitKey.
type state struct {
	leader *membership
	turn   chan struct{} // holds one token: the right to use what is below
	last   int64         // revision of commitKey; unknownRevision before it was read
	number uint64        // of transactions so far
	open   *batch        // a commit that has not ended well and of which some may be durable
	// The lock was lost while open was without an answer.
	deposed bool
}

const unknownRevision = -1

func newState(leader *membership) *state {
	s := &state{leader: leader, turn: make(chan struct{}, 1), last: unknownRevision}
	s.turn <- struct{}{}
	return s
}

// State returns the state of the coordinator's membership. That of another member can do nothing.
func (r *registry) State(leader Membership) State {
	if m, ok := leader.(*membership); ok && m.state != nil {
		return m.state
	}
	return noState{}
}

type noState struct{}

var errNoState = fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("a member that is no coordinator"),
	fault.Want("the one that LeadCoordinator returned"))

func (noState) Load(context.Context) (map[string][]byte, error) { return nil, errNoState }
func (noState) Commit(context.Context, []Change) error          { return errNoState }

// conditions are those of a transaction that follows the one at revision.
func (s *state) conditions(revision int64) []condition {
	return []condition{created(s.key(lockKey), s.leader.created), changed(s.key(commitKey), revision)}
}

// token names the transaction of the current number; no other one of the job has that name.
func (s *state) token() string {
	return fmt.Sprintf("coordinator %d commit %d", s.leader.created, s.number)
}

func (s *state) key(key string) string { return s.leader.registry.prefix + key }

func (s *state) fenced() error {
	return fault.E(fault.Fenced, fault.At(s.key(lockKey)), fault.Gotf("the coordinator of fence %d without the lock", s.leader.created))
}

// Limits of one transaction of State. Those of etcd are 128 operations and 1.5 MiB.
const (
	MaxChanges = 120
	MaxBytes   = 1 << 20 // of keys and values
	maxKey     = 512     // bytes of a relative key
)

// A batch is a commit under way.
type batch struct {
	parts []txn  // without conditions
	next  int    // the first that is not known to be durable
	tried bool   // an attempt at it has not been answered
	token string // of that attempt
}

// newBatch cuts changes into transactions. It copies the values.
func newBatch(prefix string, changes []Change) (*batch, error) {
	b := &batch{}
	for from := 0; ; {
		size, to := 0, from
		for ; to < len(changes) && to-from < MaxChanges; to++ {
			n := len(prefix) + len(changes[to].Key) + len(changes[to].Value)
			if size+n > MaxBytes && to > from {
				break
			}
			size += n
		}
		t, err := part(prefix, changes[from:to])
		if err != nil {
			return nil, err
		}
		b.parts = append(b.parts, t)
		if from = to; from == len(changes) {
			return b, nil
		}
	}
}

// part makes one transaction, in which a key may stand only once: its last change counts.
func part(prefix string, changes []Change) (txn, error) {
	last := map[string]int{}
	for i, c := range changes {
		if err := checkKey(c.Key); err != nil {
			return txn{}, err
		}
		if n := len(prefix) + len(c.Key) + len(c.Value); n > MaxBytes {
			return txn{}, fault.E(fault.TooLarge, fault.At(prefix+c.Key), fault.Gotf("an entry of %d bytes", n),
				fault.Wantf("at most %d", MaxBytes))
		}
		last[c.Key] = i
	}
	var t txn
	for i, c := range changes {
		switch {
		case last[c.Key] != i:
		case c.Value == nil:
			t.deletes = append(t.deletes, prefix+c.Key)
		default:
			t.puts = append(t.puts, put{key: prefix + c.Key, value: string(c.Value)})
		}
	}
	return t, nil
}

func checkKey(key string) error {
	odd := strings.ContainsFunc(key, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) })
	if key == "" || len(key) > maxKey || odd || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("key "+fault.Quote(key)),
			fault.Wantf("names separated by '/', at most %d bytes", maxKey))
	}
	return nil
}

// same reports whether the changes of b are those of other.
func (b *batch) same(other *batch) bool { return reflect.DeepEqual(b.parts, other.parts) }

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
