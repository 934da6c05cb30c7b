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
	"github.com/edl-go/edl/remote/waits"
)

// A State is what the coordinator of a job keeps, as small entries below /edl/<job>/task_queues/. Its methods may be called concurrently; they run
// one after the other. They wait for the store until ctx ends or the lease of the lock is lost.
type State interface {
	// Load returns all entries by key, read in pages at one revision. It fails with fault.Fenced when the membership no longer holds the lock, and with
	// fault.LostState when etcd has lost its data, and nobody who lives knows the entries. When it returns no error, no earlier Commit is under way any more: the next Commit changes the entries that Load has returned.
	Load(ctx context.Context) (map[string][]byte, error)
	// Commit makes the changes durable, in order: all or none when there are at most MaxChanges that hold at most MaxBytes, else in several transactions
	// of that size. A Commit without changes checks that the lock is held. The outcome is one of three:
	//   - nil: all changes are durable;
	//   - fault.Fenced: the membership no longer holds the lock. The transaction that found this out changed nothing and never will;
	//   - fault.Unavailable, fault.DeadlineExceeded or fault.Canceled: it is not known whether the changes were made. Another Commit of the same
	//     changes finds out and goes on. Any other changes are refused with fault.Unavailable until Load has been called. If the lock was lost in
	//     between, only the next coordinator can find out: the same changes then fail as before, and other changes and Load fail with fault.Fenced.
	//
	// Changes that cannot be committed fail with fault.InvalidArgument or fault.TooLarge. Commit itself refuses them at once and changes nothing. If the
	// store refuses a transaction, the transactions before it are durable; unless it was the first, other changes are refused until Load here too.
	Commit(ctx context.Context, changes []Change) error
}

// A Change puts an entry or, with a nil Value, deletes it.
type Change struct {
	Key   string // relative: names separated by '/'
	Value []byte
}

// Limits of one transaction of State. Those of etcd are 128 operations and 1.5 MiB.
const (
	MaxChanges = 120
	MaxBytes   = 1 << 20 // of keys and values
	maxKey     = 512     // bytes of a relative key
)

const (
	commitTry    = time.Second          // after which a transaction is tried again, perhaps at another server; doubled each time
	commitPause  = 5 * time.Millisecond // between tries; doubled each time, until
	longestPause = 200 * time.Millisecond
	maxState     = 256 << 20 // bytes that Load accepts
)

// state is the State of one membership.
//
// Each transaction has two conditions: this coordinator holds the lock, and commitKey has the revision that the transaction before gave it. A lock that
// was taken anew has another create revision than before, and nobody else had it in between. Each transaction writes its token to commitKey. So a try that was given up, but is still on its way to the store, can never be applied after a
// later one. And commitKey tells whether a try without an answer was applied.
//
// An example. Commit A is sent with token 7 on revision 40, and its answer is lost. Three things can happen when A is sent again, on revision 40 too:
//
//	the first A was applied:   the condition fails; commitKey says "7", at revision 41: A is durable, the next transaction follows 41
//	the first A never comes:   the second is applied, at revision 41
//	the first A comes later:   the second is applied, at revision 41; the first finds 41 in place of 40 and changes nothing
//
// When the caller gives A up and loads, Load first writes token 8 on revision 40. Either that holds, and A can never be applied any more, or it fails
// because A was faster, and commitKey says "7". So what Load reads is what the next commit changes.
type state struct {
	leader   *membership
	turn     chan struct{}     // holds one token: the right to use the fields below
	last     int64             // revision of commitKey; unknownRevision before it was read
	era      int64             // in which that is
	entries  map[string]string // by key, as they are durable; nil before Load
	number   uint64            // of transactions so far
	open     *openCommit       // a commit that has not ended well, and parts of which may be durable
	lostLock bool              // the lock was lost while open had no answer
}

const unknownRevision = -1

// openCommit is a commit under way.
type openCommit struct {
	parts      []txn  // without conditions
	next       int    // the first that is not known to be durable
	unanswered string // token of a try at parts[next] that may still be applied; empty: there is none
}

func newState(leader *membership) *state {
	s := &state{leader: leader, turn: make(chan struct{}, 1), last: unknownRevision}
	s.turn <- struct{}{}
	return s
}

// State returns the state of the coordinator's membership. That of another member refuses every call.
func (r *registry) State(leader Membership) State {
	if m, ok := leader.(*membership); ok && m.state != nil {
		return m.state
	}
	return noState{}
}

type noState struct{}

var errNoState = fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("a member that is no coordinator"),
	fault.Want("the membership that LeadCoordinator returned"))

func (noState) Load(context.Context) (map[string][]byte, error) { return nil, errNoState }
func (noState) Commit(context.Context, []Change) error          { return errNoState }

// Load settles the open commit and reads all entries.
func (s *state) Load(ctx context.Context) (map[string][]byte, error) {
	ctx, release, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.retry(ctx, s.settle); err != nil {
		return nil, err
	}
	s.open = nil
	var entries map[string][]byte
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		if s.last == unknownRevision { // another era has begun since the open commit was settled
			if err := s.settle(ctx); err != nil {
				return err
			}
		}
		if entries, err = s.read(ctx); err != nil {
			return err
		}
		place, commit, err := s.look(ctx)
		switch {
		case err != nil:
			return err
		case place == placeLost:
			return s.fenced()
		case place == placeWithoutKey || commit.modified != s.last: // what was read may be less than all
			return errWithoutLock
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.entries = make(map[string]string, len(entries))
	for key, value := range entries {
		s.entries[s.key(stateKey)+key] = string(value)
	}
	return entries, nil
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

// Commit begins a commit, or goes on with the open one if that has the same changes.
func (s *state) Commit(ctx context.Context, changes []Change) error {
	parts, err := cutChanges(s.key(stateKey), changes)
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
		s.open = &openCommit{parts: parts}
	case reflect.DeepEqual(s.open.parts, parts):
	case s.lostLock:
		return s.fenced()
	default:
		return fault.E(fault.Unavailable, fault.At(s.key(stateKey)), fault.Got("an earlier commit that may be durable in part"),
			fault.Hint("load the state first"))
	}
	err = s.retry(ctx, s.advance)
	fenced := fault.KindOf(err) == fault.Fenced
	switch {
	case fenced && s.open.unanswered != "": // this coordinator will never know
		s.lostLock = true
		err = fault.E(fault.Unavailable, fault.At(s.key(lockKey)),
			fault.Gotf("no answer to a commit, and then the coordinator of fence %d lost the lock", s.leader.created),
			fault.Hint("the next coordinator loads what is durable"))
	case err == nil, fenced, s.open.unanswered == "" && s.open.next == 0:
		s.open = nil
	}
	return err
}

// advance makes the rest of the open commit durable. After an error it may be called again, and goes on with the transaction that failed: the
// transactions before it are durable.
func (s *state) advance(ctx context.Context) error {
	if s.last == unknownRevision {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	for c := s.open; c.next < len(c.parts); {
		first := c.unanswered == ""
		if first {
			c.unanswered = s.newToken()
		}
		revision, ok, err := s.write(ctx, s.era, c.parts[c.next], s.last, c.unanswered)
		if first && (err == nil && !ok || refused(err)) {
			c.unanswered = "" // this try was not applied and will not be
		}
		if err == nil && !ok {
			revision, err = s.outcome(ctx)
		}
		if err != nil {
			return err
		}
		s.durable(c.parts[c.next])
		s.last, c.next, c.unanswered = revision, c.next+1, ""
	}
	return nil
}

// write makes one transaction after the one that gave commitKey the revision after, in that era. It reports false when its conditions did not hold.
func (s *state) write(ctx context.Context, era int64, part txn, after int64, token string) (revision int64, ok bool, err error) {
	held, now := s.leader.holds()
	if now != era { // a revision of one era may exist in the next one, too
		return 0, false, errWithoutLock
	}
	t := txn{when: []condition{created(s.key(lockKey), held), changed(s.key(commitKey), after)},
		deletes: part.deletes, puts: append(slices.Clip(part.puts), put{key: s.key(commitKey), value: token})}
	return s.leader.registry.commit(ctx, t, nil)
}

// refused reports whether an error of the store says that it did not even try.
func refused(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.InvalidArgument || kind == fault.TooLarge
}

// outcome finds out why the conditions of a transaction did not hold. It returns the revision of an earlier try that was applied, or an error.
func (s *state) outcome(ctx context.Context) (int64, error) {
	place, commit, err := s.look(ctx)
	switch {
	case err != nil:
		return 0, err
	case s.open.unanswered != "" && commit.value == s.open.unanswered:
		return commit.modified, nil
	case place == placeLost:
		if commit.modified == s.last {
			s.open.unanswered = "" // it was not applied, and without the lock it never will be
		}
		return 0, s.fenced()
	case place == placeWithoutKey, commit.modified == s.last, commit.value == stateLost: // the lock was taken anew since the try, perhaps in another era
		return 0, errWithoutLock
	}
	return 0, fault.E(fault.Internal, fault.At(s.key(commitKey)), fault.Got(fault.Quote(commit.value)),
		fault.Want("the last commit of the coordinator that holds the lock"))
}

// settle makes sure that no transaction is under way any more, and learns the revision of commitKey.
func (s *state) settle(ctx context.Context) error {
	place, commit, err := s.look(ctx)
	switch {
	case err != nil:
		return err
	case place == placeLost:
		return s.fenced()
	case place == placeWithoutKey:
		return errWithoutLock
	case commit.value == stateLost && s.entries == nil:
		return fault.E(fault.LostState, fault.At(s.key(commitKey)), fault.Got("an etcd that has lost its data, and no coordinator that knew the state"),
			fault.Want("all roles to begin with the last checkpoint"))
	}
	s.last = unknownRevision // until this call has succeeded: its own transaction may lose its answer, too
	switch c := s.open; {
	case c == nil || c.unanswered == "":
	case commit.value == c.unanswered: // it was applied
		s.durable(c.parts[c.next])
		c.next, c.unanswered = c.next+1, ""
	default:
		// It may still come. A transaction without changes excludes that. If the open one is faster, this one fails, and the next look shows it.
		revision, ok, err := s.write(ctx, s.era, txn{}, commit.modified, s.newToken())
		if err == nil && !ok {
			err = errUnsettled
		}
		if err != nil {
			return err
		}
		commit.modified, c.unanswered = revision, ""
	}
	s.last = commit.modified
	return nil
}

var errUnsettled = fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("a commit that was still on its way"))

// errWithoutLock is for a coordinator whose lease has ended, and which nobody has followed: it is about to take the lock anew.
var errWithoutLock = fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("a lock whose lease has ended"), fault.Want("the lock taken anew"))

// look returns whether the lock is held, and the last transaction, as they are now.
func (s *state) look(ctx context.Context) (place, entry, error) {
	held, _ := s.leader.holds() // before the keys are read: a lock that is taken anew meanwhile is another one
	v, err := s.leader.registry.store.get(ctx, s.key(lockKey), s.leader.record, s.key(commitKey), s.leader.eraKey)
	return s.leader.place(v, held), v[s.key(commitKey)], err
}

// begin waits for the turn of a call.
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
		return nil, nil, waits.GaveUp(ctx, s.key(stateKey), waits.Wait{What: "the commit before this one"})
	}
}

// retry calls f until it succeeds or fails for good, ctx ends, or the lease is lost.
func (s *state) retry(ctx context.Context, f func(context.Context) error) error {
	var last error
	for limit, pause := commitTry, commitPause; ; limit, pause = min(2*limit, requestTimeout), min(2*pause, longestPause) {
		select {
		case <-s.leader.Done():
			return s.fenced()
		case <-ctx.Done():
			return s.leader.registry.storeFault(ctx, s.key(stateKey), cmp.Or(last, ctx.Err()))
		default:
		}
		try, cancel := context.WithTimeout(ctx, limit)
		err := s.rebuild(try)
		if err == nil {
			err = f(try)
		}
		cancel()
		if err == nil || !retryable(err) {
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

// retryable reports whether another try may succeed after an error of the store.
func retryable(err error) bool {
	return fault.KindOf(err) == fault.Unavailable || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// newToken names the next transaction; no other one of the job has that name.
func (s *state) newToken() string {
	s.number++
	return fmt.Sprintf("coordinator %d commit %d", s.leader.created, s.number)
}

func (s *state) key(key string) string { return s.leader.registry.prefix + key }

func (s *state) fenced() error {
	return fault.E(fault.Fenced, fault.At(s.key(lockKey)), fault.Gotf("the coordinator of fence %d without the lock", s.leader.created))
}

// cutChanges cuts changes into transactions. It copies the values.
func cutChanges(prefix string, changes []Change) (parts []txn, err error) {
	for from := 0; ; {
		size, to := 0, from
		for ; to < len(changes) && to-from < MaxChanges; to++ {
			n := len(prefix) + len(changes[to].Key) + len(changes[to].Value)
			if size+n > MaxBytes && to > from {
				break
			}
			size += n
		}
		t, err := transactionOf(prefix, changes[from:to])
		if err != nil {
			return nil, err
		}
		parts = append(parts, t)
		if from = to; from == len(changes) {
			return parts, nil
		}
	}
}

// transactionOf makes one transaction. A key may stand in it only once: its last change counts.
func transactionOf(prefix string, changes []Change) (txn, error) {
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
