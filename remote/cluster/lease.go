package cluster

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdLease is a lease that is renewed three times in its duration. It is lost when etcd says so, and also when the duration has passed since the
// last renewal that etcd has answered was sent: then nobody can know whether it still holds. What counts is when the request was sent, for a process
// may have been paused between the answer and its reading.
type etcdLease struct {
	store  *etcdStore
	number clientv3.LeaseID
	ended  chan struct{}
	cancel context.CancelFunc // ends the renewals

	// Guarded by store.mu.
	deadline time.Time // of the last renewal
	over     bool      // revoked or lost
}

// renewPause separates attempts to renew while etcd does not answer.
const renewPause = 100 * time.Millisecond

func (s *etcdStore) grant(ctx context.Context) (lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sent := time.Now()
	r, err := s.client.Grant(ctx, s.seconds)
	if err != nil {
		return nil, etcdFault("etcd", err)
	}
	duration := time.Duration(r.TTL) * time.Second
	l := &etcdLease{store: s, number: r.ID, ended: make(chan struct{}), deadline: sent.Add(duration)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		return nil, errClosed
	}
	s.leases[l] = true
	renewing, stop := context.WithCancel(s.client.Ctx())
	l.cancel = stop
	s.alive.Go(func() {
		l.renew(renewing, duration)
		l.end(true)
	})
	return l, nil
}

// renew returns when the lease has ended, whatever the reason.
func (l *etcdLease) renew(ctx context.Context, duration time.Duration) {
	for next := duration / 3; ; {
		timer := time.NewTimer(min(next, l.left()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		sent := time.Now()
		attempt, cancel := context.WithTimeout(ctx, min(duration/4, l.left()))
		seconds, err := l.ask(attempt)
		cancel()
		switch {
		case l.left() <= 0 || err == nil && seconds <= 0:
			return
		case err != nil:
			next = renewPause
		default:
			l.extend(sent.Add(time.Duration(seconds) * time.Second))
			next = duration / 3
		}
	}
}

// ask renews the lease once and returns for how long; 0: there is no such lease. The client's own method tries again without a pause while no server
// is there.
func (l *etcdLease) ask(ctx context.Context) (seconds int64, err error) {
	stream, err := etcdserverpb.NewLeaseClient(l.store.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: l.id()}); err != nil {
		return 0, err
	}
	r, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return r.TTL, nil
}

func (l *etcdLease) id() int64 { return int64(l.number) }

func (l *etcdLease) left() time.Duration {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return time.Until(l.deadline)
}

func (l *etcdLease) extend(deadline time.Time) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.deadline = deadline
}

// end ends the lease once. Whoever calls it after an end of the other kind changes nothing.
func (l *etcdLease) end(lost bool) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	delete(l.store.leases, l)
	l.cancel()
	if lost {
		close(l.ended)
	}
}

func (l *etcdLease) lost() <-chan struct{} {
	if l.left() <= 0 {
		l.end(true)
	}
	return l.ended
}

func (l *etcdLease) revoke(ctx context.Context) error {
	l.end(false)
	return l.store.end(ctx, l.id())
}

func (s *etcdStore) end(ctx context.Context, lease int64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(lease)); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return etcdFault("etcd", err)
	}
	return nil
}
