package cluster

import "context"

// A store is the part of etcd that a registry needs: keys with revisions, leases, transactions and watches.
type store interface {
	// grant starts a lease, which is renewed until it is revoked or lost.
	grant(ctx context.Context) (lease, error)
	// revoke ends the lease of that number, whoever holds it, and removes its keys. A lease that has ended already is no error.
	revoke(ctx context.Context, lease int64) error
	// commit makes the changes of t at one new revision, which it returns, if the conditions of t hold. After an error it is not known whether the
	// changes were made, or will be.
	commit(ctx context.Context, t txn) (revision int64, ok bool, err error)
	// get returns the keys that exist, as they are at one revision that is not older than the call.
	get(ctx context.Context, keys ...string) (view, error)
	// scan calls see with each key below prefix in order, as they are at one revision that is not older than the call, until see fails.
	scan(ctx context.Context, prefix string, see func(key string, e entry) error) error
	// follow calls see with all keys below prefix, and again after every revision that changed one of them, in order. It returns nil when see returns
	// true. After an interruption it goes on with the keys as they are then; what happened in between is not shown. see must not keep the view.
	follow(ctx context.Context, prefix string, see func(view) bool) error
	// contact tells how well this handle has reached the store. nil: it always does.
	contact() *contact
	// close revokes all leases of this handle and gives up what is under way.
	close() error
}

// A lease holds keys.
type lease interface {
	// id is the number of the lease, as entries name it.
	id() int64
	// lost is closed when the store says that the lease has ended, or its handle is closed. A lease that nobody can ask about goes on.
	lost() <-chan struct{}
	// revoke ends the lease and removes its keys.
	revoke(ctx context.Context) error
}

// A txn is a transaction: changes that are made together, on the condition that all of when hold. No key may be changed twice.
type txn struct {
	when    []condition
	puts    []put
	deletes []string
	clears  []string // prefixes: all keys below them are deleted
}

// A condition compares the create revision of key or, without byCreation, the revision of its last change. Revision 0 holds when there is no such
// key.
type condition struct {
	key        string
	byCreation bool
	revision   int64
}

func absent(key string) condition                  { return condition{key: key} }
func created(key string, revision int64) condition { return condition{key, true, revision} }
func changed(key string, revision int64) condition { return condition{key, false, revision} }

type put struct {
	key, value string
	lease      lease // nil: the key stays until it is deleted
}

// An entry is a key as it is now.
type entry struct {
	value             string
	created, modified int64 // revisions
	lease             int64 // its number; 0: none
}

// A view holds entries by key.
type view map[string]entry
