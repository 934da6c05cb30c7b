package cluster

import (
	"context"
	"fmt"
	"time"

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
