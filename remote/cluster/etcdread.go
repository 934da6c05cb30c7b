package cluster

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// scan reads pages. It fails when etcd has compacted the revision of the first page before the last one was read. For every page etcd counts all keys
// that are left, so pages of few bytes are followed by longer ones.
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

// nextLimit is of how many entries the page after one of so many bytes is to be.
func nextLimit(limit, bytes int) int {
	return min(max(1, limit*pageBytes/max(1, bytes)), 4*limit, maxPageEntries)
}

// page reads at most limit entries of what is at and after from; revision 0 is the latest.
func (s *etcdStore) page(ctx context.Context, from, end string, revision int64, limit int) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
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
