package cluster

import (
	"testing"
	"time"
)

// A lease whose duration has passed is lost for whoever asks, also before the goroutine that renews it has noticed: a process may have been paused.
func TestLeaseIsOverByTheClock(t *testing.T) {
	l := &etcdLease{store: &etcdStore{leases: map[*etcdLease]bool{}}, ended: make(chan struct{}), cancel: func() {}, deadline: time.Now()}
	select {
	case <-l.lost():
	default:
		t.Error("a lease goes on beyond its deadline")
	}
}
