package cluster

import "context"

// A store is the little of etcd that a registry stands on.
type store interface {
	// grant starts a lease, which is renewed until it is revoked or lost.
	grant(ctx context.Context) (lease, error)
	// commit makes the changes of t at one new revision, which it returns, if the condition of t holds.
	commit(ctx context.Context, t txn) (revision int64, ok bool, err error)
	// follow calls see with all keys below prefix, and again after every revision that changed one of them, in order, until see returns true: then
	// follow returns nil. see must not keep the view.
	follow(ctx context.Context, prefix string, see func(view) bool) error
	// close revokes all leases of this handle and gives up what is under way.
	close() error
}

// A lease holds keys.
type lease interface {
	// lost is closed when the lease ends by anything but revoke.
	lost() <-chan struct{}
	// revoke ends the lease and removes its keys.
	revoke(ctx context.Context) error
}

// A txn is a set of changes under the condition that key was created at the given revision; 0: that there is no such key. An empty key is no condition.
type txn struct {
	key     string
	created int64
	puts    []put
	deletes []string
}

type put struct {
	key, value string
	lease      lease // nil: the key stays until it is deleted
}

// An entry is a key as it is now.
type entry struct {
	value             string
	created, modified int64 // revisions
}

// A view holds entries by key.
type view map[string]entry
