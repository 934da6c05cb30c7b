package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

const (
	requestTimeout = 10 * time.Second       // of one request, whatever the caller's context allows
	relistDelay    = 100 * time.Millisecond // before a watch that broke is begun again
	pageEntries    = 256                    // of the first page of a scan, which may be large
	maxPageEntries = 1 << 16
	pageBytes      = 2 << 20 // that pages are to have
)

// etcdStore is a store in etcd.
type etcdStore struct {
	client  *clientv3.Client
	cancel  context.CancelFunc
	seconds int64 // of a lease

	mu     sync.Mutex
	leases map[*etcdLease]bool
	alive  sync.WaitGroup // goroutines of leases
}

func (s *etcdStore) commit(ctx context.Context, t txn) (int64, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var conditions []clientv3.Cmp
	for _, c := range t.when {
		of := clientv3.ModRevision(c.key)
		if c.byCreation {
			of = clientv3.CreateRevision(c.key)
		}
		conditions = append(conditions, clientv3.Compare(of, "=", c.revision))
	}
	var changes []clientv3.Op
	for _, p := range t.puts {
		var options []clientv3.OpOption
		if l, ok := p.lease.(*etcdLease); ok {
			options = append(options, clientv3.WithLease(l.number))
		}
		changes = append(changes, clientv3.OpPut(p.key, p.value, options...))
	}
	for _, key := range t.deletes {
		changes = append(changes, clientv3.OpDelete(key))
	}
	for _, prefix := range t.clears {
		changes = append(changes, clientv3.OpDelete(prefix, clientv3.WithPrefix()))
	}
	r, err := s.client.Txn(ctx).If(conditions...).Then(changes...).Commit()
	if err != nil {
		return 0, false, etcdFault("etcd", err)
	}
	return r.Header.Revision, r.Succeeded, nil
}

func (s *etcdStore) get(ctx context.Context, keys ...string) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var reads []clientv3.Op
	for _, key := range keys {
		reads = append(reads, clientv3.OpGet(key))
	}
	r, err := s.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, etcdFault("etcd", err)
	}
	v := view{}
	for _, answer := range r.Responses {
		for _, kv := range answer.GetResponseRange().Kvs {
			v[string(kv.Key)] = entryOf(kv)
		}
	}
	return v, nil
}

func (s *etcdStore) close() error {
	s.mu.Lock()
	leases := s.leases
	s.leases = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var all sync.WaitGroup
	for l := range leases {
		all.Go(func() { _, _ = s.client.Revoke(ctx, l.number) }) // else it ends unrenewed
	}
	all.Wait()
	_ = s.client.Close() // reports nothing but that it was canceled
	s.cancel()
	s.alive.Wait()
	return nil
}

func entryOf(kv *mvccpb.KeyValue) entry {
	return entry{value: string(kv.Value), created: kv.CreateRevision, modified: kv.ModRevision, lease: kv.Lease}
}

// etcdFault tells what may be tried again from what may not.
func etcdFault(where string, err error) error {
	err = rpctypes.Error(err)
	kind := fault.Unavailable
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		kind = fault.InvalidArgument
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		kind = fault.TooLarge
	}
	return fault.Wrap(kind, where, err)
}
