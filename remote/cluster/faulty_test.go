package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
)

// A network lies between handles and their store. It loses requests and answers, delivers requests after their caller has given them up, and holds
// callers as if their process had been paused just before the request.
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

// release delivers what is late and lets callers go on: each by chance or, at the end, all.
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
	failed  func() // called when a request fails; may be nil
}

var errLost = fault.E(fault.Unavailable, fault.At("network"), fault.Got("a request that was lost"))

func (f *faulty) lose() error {
	if f.failed != nil {
		f.failed()
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

// longestHold ends what nobody is left to end: all others may be waiting for the one that is paused.
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

// pass tells that a request comes by.
func (f *faulty) pass() {
	select {
	case f.network.used <- struct{}{}:
	default:
	}
}
