package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/internal/etcdtest"
)

// recorder keeps a history in the order of a clock that only counts.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	all   []porcupine.Operation
}

func (r *recorder) add(client int, call, end int64, a action, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, porcupine.Operation{ClientId: client, Call: call, Return: end, Input: a, Output: o})
}

// play lets several coordinators of one job compete, disturbs them after some requests, and checks the history.
func play(t *testing.T, seed uint64, open func() (Registry, error), each, commits, every int, disturb func(*network)) error {
	ctx := bounded(t)
	net, rec := newNetwork(seed), &recorder{}
	const coordinators = 3
	errs := make(chan error, coordinators)
	for i := range coordinators {
		go func() {
			l := &lives{client: i, open: open, network: net, recorder: rec, commits: commits}
			for range each {
				if err := l.lead(ctx); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var failed error
	for running, requests := coordinators, 0; running > 0; {
		select {
		case err := <-errs:
			running--
			failed = errors.Join(failed, err)
		case <-net.used:
			if requests++; requests%every == 0 {
				net.release(false)
				disturb(net)
			}
		}
	}
	if failed != nil {
		return failed
	}
	net.release(true)
	last := &lives{client: coordinators, open: open, network: newNetwork(seed), recorder: rec}
	if err := last.lead(ctx); err != nil {
		return err
	}
	if result := porcupine.CheckOperationsTimeout(fencing, rec.all, patience); result != porcupine.Ok {
		return fmt.Errorf("a history of %d operations: %v\n%v", len(rec.all), result, rec.all)
	}
	return nil
}

// Coordinators that are paused, lose their leases, and whose requests come late or twice never change what a later one keeps, and every commit is
// what its caller was told.
func TestHistories(t *testing.T) {
	const histories, workers = 200, 8
	seeds := make(chan uint64)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for seed := range seeds {
				memory, prefix := NewMemory(), Prefix("history")
				open := func() (Registry, error) { return memory.Open(prefix) }
				err := play(t, seed, open, 4, 6, 5, func(n *network) {
					if n.draw(3) == 0 {
						memory.Expire(prefix, coordinator)
					}
				})
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	for seed := range uint64(histories) {
		seeds <- seed
	}
	close(seeds)
	all.Wait()
}

// The same with real servers, of which the leader is killed and started again.
func TestHistoryOnServers(t *testing.T) {
	servers := etcdtest.Start(t, 3, etcdtest.Options{})
	prefix := Prefix("history")
	client := servers.Client()
	open := func() (Registry, error) {
		return Open(t.Context(), Config{Endpoints: servers.Endpoints(), Prefix: prefix, Lease: 2 * time.Second})
	}
	down, turns, kills := -1, 0, 0
	err := play(t, 1, open, 4, 8, 5, func(*network) {
		switch turns++; {
		case turns%3 == 0: // a lease is lost
			bounded, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if r, err := client.Get(bounded, prefix+lockKey); err == nil && len(r.Kvs) == 1 {
				_, _ = client.Revoke(bounded, clientv3.LeaseID(r.Kvs[0].Lease))
			}
		case turns%3 == 1 && down < 0:
			down = servers.Leader()
			servers.Kill(down)
			kills++
		case turns%3 == 2 && down >= 0:
			servers.Restart(down)
			down = -1
		}
	})
	if err != nil || kills == 0 {
		t.Errorf("%d kills: %v", kills, err)
	}
}
