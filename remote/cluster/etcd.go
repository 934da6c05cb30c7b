package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// DefaultLease is the lease of a member when Config names none.
const DefaultLease = 5 * time.Second

const (
	requestTimeout = 10 * time.Second       // of one request, whatever the caller's context allows
	relistDelay    = 100 * time.Millisecond // before a watch that broke is begun again
	pageEntries    = 256                    // read at once
)

// Config says where a registry is.
type Config struct {
	Endpoints []string      // of etcd
	Prefix    string        // of the job's keys; see Prefix
	Lease     time.Duration // after which a member that does not renew is lost; rounded up to seconds; 0: DefaultLease
	Access    Access        // what etcd asks for; the zero value: what the environment of this process says, see AccessFrom
	Log       *slog.Logger  // nil: discarded
}

// Open connects to etcd and returns a handle on the job's members. It fails when etcd does not answer before ctx ends, and after 10 seconds in any case.
func Open(ctx context.Context, c Config) (Registry, error) {
	if err := checkPrefix(c.Prefix); err != nil {
		return nil, err
	}
	if c.Access == (Access{}) {
		c.Access = AccessFrom(os.Getenv)
	}
	secured, err := c.Access.tls(c.Endpoints)
	if err != nil {
		return nil, err
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	where := "etcd at " + strings.Join(c.Endpoints, ", ")
	probed := probe(ctx, c.Endpoints, secured)
	if mistrust(probed) {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: where, Err: probed, Hint: "name the authority of its certificate"}
	}
	s, err := connect(ctx, c, secured)
	if err == nil {
		if _, err = s.list(ctx, c.Prefix+"/", view{}); err == nil {
			return newRegistry(s, c.Prefix), nil
		}
		_ = s.close()
	}
	if probed != nil && fault.KindOf(err) == fault.Unavailable {
		err = &fault.Fault{Kind: fault.Unavailable, Where: where, Err: probed}
	}
	return nil, storeFault(ctx, where, err)
}

// connect makes a client, which lives until its close, not until ctx ends.
func connect(ctx context.Context, c Config, secured *tls.Config) (*etcdStore, error) {
	base, cancel := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, cancel)() // the client may ask for a token
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: secured, Username: c.Access.User, Password: c.Access.Password, DialTimeout: requestTimeout, Context: base,
		Logger: zapTo(base, c.Log), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		cancel()
		return nil, etcdFault("etcd", err)
	}
	return &etcdStore{client: client, cancel: cancel, seconds: int64((c.Lease + time.Second - 1) / time.Second), leases: map[*etcdLease]bool{}}, nil
}

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

// scan reads pages. It fails when etcd has compacted the revision of the first page before the last one was read.
func (s *etcdStore) scan(ctx context.Context, prefix string, see func(string, entry) error) error {
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, revision := prefix, int64(0); ; {
		r, err := s.page(ctx, from, end, revision)
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			if err := see(string(kv.Key), entryOf(kv)); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return nil
		}
		revision = r.Header.Revision
	}
}

// page reads a part of what is at and after from; revision 0 is the latest.
func (s *etcdStore) page(ctx context.Context, from, end string, revision int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageEntries), clientv3.WithRev(revision))
	if err != nil {
		return nil, etcdFault("etcd", err)
	}
	if revision != 0 {
		r.Header.Revision = revision
	}
	return r, nil
}

// list puts all keys below prefix into v and returns the revision at which they were so.
func (s *etcdStore) list(ctx context.Context, prefix string, v view) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
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

// follow lists and then watches from the next revision on. A watch that breaks, because etcd was away or has compacted what it was to tell, is begun
// again by listing.
func (s *etcdStore) follow(ctx context.Context, prefix string, see func(view) bool) error {
	v := view{}
	for {
		revision, err := s.list(ctx, prefix, v)
		switch {
		case err == nil:
			if see(v) || s.watch(ctx, prefix, revision, v, see) {
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
func (s *etcdStore) watch(ctx context.Context, prefix string, revision int64, v view, see func(view) bool) bool {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
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
