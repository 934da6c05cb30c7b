package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
	"github.com/edl-go/edl/remote/id"
)

// recorder keeps a history of operations. Its clock counts events.
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
			l := &client{number: i, open: open, network: net, recorder: rec, commits: commits}
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
	last := &client{number: coordinators, open: open, network: newNetwork(seed), recorder: rec}
	if err := last.lead(ctx); err != nil {
		return err
	}
	if result := porcupine.CheckOperationsTimeout(fencing, rec.all, patience); result != porcupine.Ok {
		return fmt.Errorf("a history of %d operations: %v\n%v", len(rec.all), result, rec.all)
	}
	return nil
}

// Coordinators are paused and lose their leases, and their requests come late or twice. No coordinator changes what a later one has written, and
// every commit has the outcome that its caller was told.
func TestHistories(t *testing.T) {
	t.Parallel()
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
						memory.expire(prefix, coordinator, n.draw(2) == 0)
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

// The same with real servers; the leader is killed and started again.
func TestHistoryOnServers(t *testing.T) {
	t.Parallel()
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

// client runs one coordinator after another, in one goroutine.
type client struct {
	number   int
	open     func() (Registry, error)
	network  *network
	recorder *recorder
	commits  int // of one coordinator
	numbers  int // of the values so far
}

// lead is one coordinator from its election to its end.
func (l *client) lead(ctx context.Context) error {
	opened, err := l.open()
	if err != nil {
		return unexpected(ctx, err)
	}
	defer opened.Close()
	r := opened.(*registry)
	net := &faulty{store: r.store, network: l.network}
	r.store = net
	call := l.recorder.clock.Add(1)
	m, err := r.LeadCoordinator(ctx, "host:1")
	if err != nil {
		return unexpected(ctx, err)
	}
	l.recorder.add(l.number, call, l.recorder.clock.Add(1), action{what: "lead", fence: m.Fence()}, outcome{})
	s := r.State(m)
	if loaded, err := l.load(ctx, s, m.Fence()); !loaded {
		return err
	}
	for range l.commits {
		if goes, err := l.commit(ctx, net, s, m.Fence()); !goes {
			return err
		}
	}
	if l.network.draw(3) > 0 {
		return unexpected(ctx, m.Leave(ctx))
	}
	return nil // closing ends the lease
}

// unexpected returns nil for an error that the network or a lost lock explains.
func unexpected(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Fenced)) {
		return nil
	}
	return err
}

func (l *client) load(ctx context.Context, s State, fence id.Fence) (bool, error) {
	call := l.recorder.clock.Add(1)
	entries, err := s.Load(ctx)
	if err != nil {
		return false, unexpected(ctx, err)
	}
	a, b := string(entries["a"]), string(entries["b"])
	if a != b {
		return false, fmt.Errorf("half of a commit: %q and %q", a, b)
	}
	l.recorder.add(l.number, call, l.recorder.clock.Add(1), action{what: "load", fence: fence}, outcome{value: a})
	return true, nil
}

// commit repeats one commit until its outcome is known, or gives up and calls Load. It reports whether the coordinator still leads.
func (l *client) commit(ctx context.Context, net *faulty, s State, fence id.Fence) (bool, error) {
	l.numbers++
	value := fmt.Sprintf("%d of %d", l.numbers, l.number)
	a := action{"commit", fence, value}
	call := l.recorder.clock.Add(1)
	for {
		try, cancel := context.WithCancel(ctx)
		if l.network.draw(3) == 0 {
			net.failed.Store(&cancel) // the caller gives up
		}
		err := s.Commit(try, []Change{{"a", []byte(value)}, {"b", []byte(value)}})
		net.failed.Store(nil)
		cancel()
		end := l.recorder.clock.Add(1)
		switch {
		case err == nil:
			l.recorder.add(l.number, call, end, a, outcome{})
			return true, nil
		case errors.Is(err, fault.Fenced):
			l.recorder.add(l.number, call, end, a, outcome{kind: fault.Fenced})
			return false, nil
		case ctx.Err() != nil || !errors.Is(err, fault.Canceled) && !errors.Is(err, fault.Unavailable):
			return false, err
		case l.network.draw(2) == 0:
			continue // the same once more
		}
		loaded, err := l.load(ctx, s, fence)
		end = math.MaxInt64 - 1
		if loaded { // and then it is not under way any more
			end = l.recorder.clock.Add(1)
		}
		l.recorder.add(l.number, call, end, a, outcome{kind: fault.Unavailable})
		return loaded, err
	}
}

// An action is what a coordinator does: lead with a fence, commit a value under it, or load one.
type action struct {
	what  string // "lead", "commit" or "load"
	fence id.Fence
	value string // to commit
}

// An outcome is the result of an action.
type outcome struct {
	kind  fault.Kind // OK; Fenced; Unavailable: not known
	value string     // loaded
}

// truth is the state of the model: the fence of the leader, 0 when it was told that it leads no more, and the value in the store.
type truth struct {
	fence id.Fence
	value string
}

// fencing is the model. Only the leader changes the value. A coordinator that was told that it leads no more does not lead again. A commit whose
// outcome is not known was made or was not.
var fencing = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{truth{}} },
	Step: func(state, input, output any) []any {
		s, a, o := state.(truth), input.(action), output.(outcome)
		leads := s.fence == a.fence
		switch {
		case a.what == "lead":
			if a.fence > s.fence {
				return []any{truth{a.fence, s.value}}
			}
		case a.what == "load":
			if s.value == o.value {
				return []any{s}
			}
		case o.kind == fault.OK:
			if leads {
				return []any{truth{a.fence, a.value}}
			}
		case o.kind == fault.Fenced:
			if leads {
				return []any{truth{0, s.value}}
			}
			return []any{s}
		case leads:
			return []any{s, truth{a.fence, a.value}}
		default:
			return []any{s}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}).ToModel()

// A network connects handles to their store. It loses requests and answers, delivers requests after their callers have given up, and pauses callers
// just before a request.
type network struct {
	used chan struct{} // one for each request that came by, as far as somebody looks

	mu     sync.Mutex
	random *rand.Rand
	late   []func()        // requests that were given up
	paused []chan struct{} // callers that wait to go on
}

func newNetwork(seed uint64) *network {
	return &network{used: make(chan struct{}, 1), random: rand.New(rand.NewPCG(seed, 1))}
}

// draw returns a number below n.
func (n *network) draw(below int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(below)
}

// release delivers late requests and lets paused callers go on: some by chance, or all.
func (n *network) release(all bool) {
	n.mu.Lock()
	var deliver []func()
	var late []func()
	for _, f := range n.late {
		if all || n.random.IntN(2) == 0 {
			deliver = append(deliver, f)
		} else {
			late = append(late, f)
		}
	}
	n.late = late
	for len(n.paused) > 0 && (all || n.random.IntN(2) == 0) {
		close(n.paused[0])
		n.paused = n.paused[1:]
	}
	n.mu.Unlock()
	for _, f := range deliver {
		f()
	}
}

// faulty is the store of one handle behind the network.
type faulty struct {
	store
	network *network
	failed  atomic.Pointer[context.CancelFunc] // is called when a request fails; nil: nothing is
}

var errLost = fault.E(fault.Unavailable, fault.At("network"), fault.Got("a request that was lost"))

func (f *faulty) lose() error {
	if failed := f.failed.Load(); failed != nil {
		(*failed)()
	}
	return errLost
}

func (f *faulty) commit(ctx context.Context, t txn) (int64, bool, error) {
	f.pass()
	switch f.network.draw(16) {
	case 0: // the request is lost
		return 0, false, f.lose()
	case 1: // the answer is lost
		if _, _, err := f.store.commit(ctx, t); err != nil {
			return 0, false, err
		}
		return 0, false, f.lose()
	case 2: // the request comes late
		n := f.network
		n.mu.Lock()
		n.late = append(n.late, func() { _, _, _ = f.store.commit(context.WithoutCancel(ctx), t) })
		n.mu.Unlock()
		return 0, false, f.lose()
	case 3: // the caller is paused
		f.pause(ctx)
	}
	return f.store.commit(ctx, t)
}

// longestHold bounds a pause: all others may be waiting for the caller that is paused.
const longestHold = 20 * time.Millisecond

func (f *faulty) pause(ctx context.Context) {
	wake, n := make(chan struct{}), f.network
	n.mu.Lock()
	n.paused = append(n.paused, wake)
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longestHold)
	defer cancel()
	select {
	case <-wake:
	case <-ctx.Done():
	}
}

func (f *faulty) get(ctx context.Context, keys ...string) (view, error) {
	f.pass()
	if f.network.draw(16) == 0 {
		return nil, f.lose()
	}
	return f.store.get(ctx, keys...)
}

func (f *faulty) scan(ctx context.Context, prefix string, see func(string, entry) error) error {
	f.pass()
	if f.network.draw(16) == 0 {
		return f.lose()
	}
	return f.store.scan(ctx, prefix, see)
}

// pass notes a request.
func (f *faulty) pass() {
	select {
	case f.network.used <- struct{}{}:
	default:
	}
}
