package cluster

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// The limits of requests to etcd are no time limits of a job: a client of etcd serves the jobs of a listener together, also while none runs. An etcd
// cluster chooses another leader within a few seconds, so a request that takes longer than requestTimeout has no leader to wait for.
const (
	requestTimeout = 10 * time.Second       // of one request, whatever the caller's context allows
	relistDelay    = 100 * time.Millisecond // before a watch that broke is begun again
	pageEntries    = 256                    // of the first page of a scan, which may be large
	maxPageEntries = 1 << 16
	pageBytes      = 2 << 20 // that a page should have
)

// etcdStore is a store in etcd.
type etcdStore struct {
	client  *clientv3.Client
	cancel  context.CancelFunc
	seconds int64 // of a lease
	// renewEvery separates the renewals of a lease; 0: a third of its duration.
	renewEvery time.Duration

	reached *contact

	mu       sync.Mutex
	again    context.Context    // ends when watches are to begin again
	breakOff context.CancelFunc // ends it
	leases   map[*etcdLease]bool
	running  sync.WaitGroup // goroutines of leases
}

func (s *etcdStore) contact() *contact { return s.reached }

func (s *etcdStore) commit(ctx context.Context, t txn) (_ int64, _ bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
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

func (s *etcdStore) get(ctx context.Context, keys ...string) (_ view, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
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
		all.Go(func() { _, _ = s.client.Revoke(ctx, l.number) }) // if this fails, the lease ends because nobody renews it
	}
	all.Wait()
	_ = s.client.Close() // reports nothing but that it was canceled
	s.cancel()
	s.running.Wait()
	return nil
}

func entryOf(kv *mvccpb.KeyValue) entry {
	return entry{value: string(kv.Value), created: kv.CreateRevision, modified: kv.ModRevision, lease: kv.Lease}
}

// etcdFault gives an error of etcd a kind: Unavailable when another try may succeed.
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

// scan reads pages. It fails when etcd compacts the revision of the first page before the last one is read. For every page etcd counts all keys that
// are left, so a page of few bytes is followed by a page of more entries.
func (s *etcdStore) scan(ctx context.Context, prefix string, see func(string, entry) error) error {
	end := clientv3.GetPrefixRangeEnd(prefix)
	limit := pageEntries
	for from, revision := prefix, int64(0); ; {
		r, err := s.page(ctx, from, end, revision, limit)
		if err != nil {
			return err
		}
		bytes := 0
		for _, kv := range r.Kvs {
			bytes += len(kv.Key) + len(kv.Value)
			if err := see(string(kv.Key), entryOf(kv)); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return nil
		}
		revision, limit = r.Header.Revision, nextLimit(limit, bytes)
	}
}

// nextLimit returns how many entries the next page should have, after a page of limit entries that had so many bytes.
func nextLimit(limit, bytes int) int {
	return min(max(1, limit*pageBytes/max(1, bytes)), 4*limit, maxPageEntries)
}

// page reads at most limit entries from a key on; revision 0 is the latest.
func (s *etcdStore) page(ctx context.Context, from, end string, revision int64, limit int) (_ *clientv3.GetResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
	r, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(revision))
	if err != nil {
		return nil, etcdFault("etcd", err)
	}
	if revision != 0 {
		r.Header.Revision = revision
	}
	return r, nil
}

// list puts all keys below prefix into v and returns the revision at which they were so.
func (s *etcdStore) list(ctx context.Context, prefix string, v view) (_ int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
	r, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, etcdFault("etcd", err)
	}
	clear(v)
	for _, kv := range r.Kvs {
		v[string(kv.Key)] = entryOf(kv)
	}
	return r.Header.Revision, nil
}

// follow lists the keys and then watches from the next revision on. When the watch breaks, because etcd was away or has compacted the next revision,
// follow begins again with a list.
func (s *etcdStore) follow(ctx context.Context, prefix string, see func(view) bool) error {
	v := view{}
	for {
		again := s.watchAgain()
		revision, err := s.list(ctx, prefix, v)
		switch {
		case err == nil:
			if see(v) || s.watch(ctx, prefix, revision, v, see, again) {
				return nil
			}
		case !errors.Is(err, fault.Unavailable) || ctx.Err() != nil:
			return err
		}
		timer := time.NewTimer(relistDelay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if err == nil {
				err = ctx.Err()
			}
			return err
		}
	}
}

// watch keeps v up to date after revision until see returns true, which it reports, or the watch breaks.
func (s *etcdStore) watch(ctx context.Context, prefix string, revision int64, v view, see func(view) bool, again context.Context) bool {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	defer context.AfterFunc(again, cancel)()
	for r := range s.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		for i, event := range r.Events {
			if event.Type == mvccpb.Event_DELETE {
				delete(v, string(event.Kv.Key))
			} else {
				v[string(event.Kv.Key)] = entryOf(event.Kv)
			}
			ended := i+1 == len(r.Events) || r.Events[i+1].Kv.ModRevision != event.Kv.ModRevision
			if ended && see(v) {
				return true
			}
		}
	}
	return false
}

// watchAgain ends when the watches that begin now are to begin again.
func (s *etcdStore) watchAgain() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}

// relist lets all watches begin again with a list. When a lease ends, etcd may have lost its data: then its revisions begin anew, and a watch from a revision
// that is not there yet would show nothing.
func (s *etcdStore) relist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakOff()
	s.again, s.breakOff = context.WithCancel(s.client.Ctx())
}

// etcdLease is a lease that is renewed three times in its duration:
//
//	granted --> renewed, renewed, ... --> revoked   by Leave or close
//	                                 \--> lost      etcd says that it has ended
//
// While etcd does not answer, the lease is tried again and again, and is not lost: an etcd that was away gives its leases their whole duration again
// when it is back. If etcd was there for others meanwhile, and has ended the lease, it says so.
type etcdLease struct {
	store  *etcdStore
	number clientv3.LeaseID
	ended  chan struct{}
	cancel context.CancelFunc // ends the renewals

	// Used by the renewals only. All requests go over one stream. One that does not answer in time is given up for another.
	stream etcdserverpb.Lease_LeaseKeepAliveClient // nil: there is none
	hangUp context.CancelFunc                      // ends stream

	// Guarded by store.mu.
	over bool // revoked or lost
}

// renewPause separates tries to renew while etcd does not answer.
const renewPause = 100 * time.Millisecond

func (s *etcdStore) grant(ctx context.Context) (_ lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
	r, err := s.client.Grant(ctx, s.seconds)
	if err != nil {
		return nil, etcdFault("etcd", err)
	}
	duration := time.Duration(r.TTL) * time.Second
	l := &etcdLease{store: s, number: r.ID, ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		return nil, errClosed
	}
	s.leases[l] = true
	renewing, stop := context.WithCancel(s.client.Ctx())
	l.cancel = stop
	s.running.Go(func() {
		l.renew(renewing, duration)
		s.relist()
		l.end(true)
	})
	return l, nil
}

// renew returns when the lease has ended, whatever the reason.
func (l *etcdLease) renew(ctx context.Context, duration time.Duration) {
	every := cmp.Or(l.store.renewEvery, duration/3)
	for next := every; ; {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		seconds, err := l.renewWithin(ctx, duration/4)
		switch {
		case err == nil && seconds <= 0:
			return
		case err != nil:
			next = renewPause
		default:
			next = every
		}
	}
}

// renewWithin is renewOnce with a limit. When it fails, the stream ends.
func (l *etcdLease) renewWithin(ctx context.Context, limit time.Duration) (seconds int64, err error) {
	defer l.store.reached.request(ctx)(&err)
	if l.stream == nil {
		ctx, l.hangUp = context.WithCancel(ctx)
	}
	late := time.AfterFunc(limit, l.hangUp)
	seconds, err = l.renewOnce(ctx)
	if !late.Stop() || err != nil {
		l.hangUp()
		l.stream = nil
	}
	return seconds, err
}

// renewOnce renews the lease and returns for how long; 0: there is no such lease. It opens the stream, with ctx, unless there is one. The method of the
// client is not used here: while no server is there, it tries again without a pause.
func (l *etcdLease) renewOnce(ctx context.Context) (seconds int64, err error) {
	if l.stream == nil {
		if l.stream, err = etcdserverpb.NewLeaseClient(l.store.client.ActiveConnection()).LeaseKeepAlive(ctx); err != nil {
			return 0, etcdFault("etcd", err)
		}
	}
	if err = l.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: l.id()}); err != nil {
		return 0, etcdFault("etcd", err)
	}
	r, err := l.stream.Recv()
	if err != nil {
		return 0, etcdFault("etcd", err)
	}
	return r.TTL, nil
}

func (l *etcdLease) id() int64 { return int64(l.number) }

// end ends the lease once, as lost or revoked. A second call changes nothing.
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

func (l *etcdLease) lost() <-chan struct{} { return l.ended }

func (l *etcdLease) revoke(ctx context.Context) error {
	l.end(false)
	return l.store.revoke(ctx, l.id())
}

func (s *etcdStore) revoke(ctx context.Context, lease int64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer s.reached.request(ctx)(&err)
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(lease)); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return etcdFault("etcd", err)
	}
	return nil
}
