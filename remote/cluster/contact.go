package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
)

// contact keeps how well a handle reaches its store: since when no request was answered, and when that was so for the last time. A nil contact always
// reaches it.
//
// When the lease of a member ends while the store was there all the time, the member is silent. When the store was away, paused or slow, it was the store
// that was silent: then the members have the time of a lease, from the moment when the store is back, to take their keys anew.
type contact struct {
	where string        // the store, as errors name it
	lease time.Duration // of the members of the handle

	mu       sync.Mutex
	pending  map[*time.Time]struct{} // when the requests that have no answer yet were sent
	answered time.Time               // when the last answer came
	failure  error                   // of the requests since then; nil: none has failed
	missed   time.Time               // when the store was found silent for the last time
}

func newContact(where string, lease time.Duration) *contact {
	return &contact{where: where, lease: lease, pending: map[*time.Time]struct{}{}, answered: time.Now()}
}

// slow is how long an answer may take from a store that counts as there.
func (c *contact) slow() time.Duration { return c.lease / 4 }

// request notes that a request is sent. What it returns notes how the request has ended; ctx is the caller's, which may give the request up.
func (c *contact) request(ctx context.Context) func(err *error) {
	if c == nil {
		return func(*error) {}
	}
	sent := new(time.Time)
	*sent = time.Now()
	c.mu.Lock()
	c.pending[sent] = struct{}{}
	c.mu.Unlock()
	return func(err *error) {
		now := time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, sent)
		late := now.Sub(*sent) > c.slow()
		switch {
		case *err == nil || !retryable(*err):
			c.answered, c.failure = now, nil
		case late || ctx.Err() == nil:
			c.failure, late = *err, true
		}
		if late {
			c.missed = now
		}
	}
}

// silent reports since when no request was answered, and a fault that says so, if the store does not answer now.
func (c *contact) silent() (since time.Time, reason error) {
	if c == nil {
		return time.Time{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil && !c.waits(time.Now()) {
		return time.Time{}, nil
	}
	return c.answered, fault.E(fault.Unavailable, fault.At(c.where), fault.Cause(c.failure),
		fault.Gotf("no answer since %s", c.answered.Format(time.TimeOnly)), fault.Hint("start etcd again, with the data that it had if they are there"))
}

// waits reports whether a request waits for its answer for too long. c.mu is held.
func (c *contact) waits(now time.Time) bool {
	for sent := range c.pending {
		if now.Sub(*sent) > c.slow() && c.answered.Before(*sent) {
			return true
		}
	}
	return false
}

// grace is how long a member whose lease has ended still has to take its key anew: 0 when the store was there for the time of a lease.
func (c *contact) grace() time.Duration {
	if c == nil {
		return 0
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil || c.waits(now) {
		c.missed = now
	}
	if c.missed.IsZero() {
		return 0
	}
	return max(0, c.lease-now.Sub(c.missed))
}
