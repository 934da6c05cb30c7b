package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdLease is a lease that etcd's client renews three times in its duration. It is lost when etcd says so, and also when etcd has not answered
// for the whole duration: then nobody can know whether it still holds.
type etcdLease struct {
	store *etcdStore
	id    clientv3.LeaseID
	ended chan struct{}

	revoked bool // by its holder; guarded by store.mu
}

func (s *etcdStore) grant(ctx context.Context) (lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := s.client.Grant(ctx, s.seconds)
	if err != nil {
		return nil, etcdFault(err)
	}
	l := &etcdLease{store: s, id: r.ID, ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		return nil, errClosed
	}
	renewals, err := s.client.KeepAlive(s.client.Ctx(), r.ID)
	if err != nil {
		return nil, etcdFault(err)
	}
	s.leases[l] = true
	s.alive.Go(func() { l.watch(renewals) })
	return l, nil
}

// watch ends with the lease. The channel is closed when the lease is not renewed any more, whatever the reason.
func (l *etcdLease) watch(renewals <-chan *clientv3.LeaseKeepAliveResponse) {
	for range renewals { // each only moves the deadline, which the client keeps
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	delete(l.store.leases, l)
	if !l.revoked {
		close(l.ended)
	}
}

func (l *etcdLease) lost() <-chan struct{} { return l.ended }

func (l *etcdLease) revoke(ctx context.Context) error {
	l.store.mu.Lock()
	l.revoked = true
	delete(l.store.leases, l)
	l.store.mu.Unlock()
	_, err := l.store.client.Revoke(ctx, l.id)
	return err
}
