package listen

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A wish is another number of pservers that somebody wants. A job changes to one number after the other, and only while it trains: a wish waits until the last change
// has ended and its pservers have, and until no pserver is being replaced. Of the wishes that wait the latest one stays.
type wish struct {
	servers      int
	since, until time.Time
	over         chan struct{} // closed when a later wish has taken its place
	by           int           // the number of the later wish, once over is closed
}

// enterWish makes a wish the one that waits. It takes j.mu.
func enterWish(j *Job, servers int) *wish {
	w := &wish{servers: servers, since: time.Now(), until: time.Now().Add(j.limits.Start), over: make(chan struct{})}
	j.withLock(func() {
		if last := j.placing.wish; last != nil {
			last.by = servers
			close(last.over)
		}
		j.placing.wish = w
	})
	return w
}

// leaveWish ends a wish. It takes j.mu.
func leaveWish(j *Job, w *wish) {
	j.withLock(func() {
		if j.placing.wish == w {
			j.placing.wish = nil
		}
	})
}

// await returns when the job may begin to change to the number of a wish, or may have it already.
func (w *wish) await(ctx context.Context, c *jobRun) error {
	where := fault.At("job " + c.job.ID)
	timer := time.NewTimer(time.Until(w.until))
	defer timer.Stop()
	for {
		var busy error
		var decided <-chan struct{}
		c.job.withLock(func() { busy, decided = busyWith(c, w.servers), c.decided })
		if busy == nil {
			return nil
		}
		select {
		case <-decided:
		case <-w.over:
			return fault.E(fault.Superseded, where, fault.Gotf("a later change to %d pservers", w.by), fault.Wantf("%d pservers", w.servers))
		case <-c.over:
			return fault.E(fault.Unavailable, where, fault.Got("a job that has ended"))
		case <-timer.C:
			return fault.E(fault.DeadlineExceeded, where, fault.Gotf("no moment within %v at which the job could change to %d pservers", c.job.limits.Start, w.servers),
				fault.Cause(busy))
		case <-ctx.Done():
			return fault.E(fault.DeadlineExceeded, where, fault.Gotf("no change to %d pservers", w.servers), fault.Cause(busy))
		}
	}
}

// busyWith tells why the job cannot begin now to change to a number of pservers; nil: it can. job.mu is held.
func busyWith(c *jobRun, servers int) error {
	if c.job.placing.changes {
		return fault.E(fault.Unavailable, fault.Got("a change of the number of pservers that is under way"))
	}
	return supervise.Busy(c.machine, servers)
}

// wishWaits tells of the wish that waits; nil: none does. job.mu is held.
func wishWaits(c *jobRun) *job.Wait {
	w := c.job.placing.wish
	if w == nil {
		return nil
	}
	busy := busyWith(c, w.servers)
	if busy == nil { // it is under way, and others tell what that waits for
		return nil
	}
	return &job.Wait{Who: supervisor, What: fmt.Sprintf("the moment at which the job can change to %d pservers", w.servers), Since: timestamppb.New(w.since),
		Until: timestamppb.New(w.until), LastError: busy.Error()}
}
