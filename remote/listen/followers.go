package listen

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// followers knows whether somebody acknowledges the steps of a job with max_ahead, which waits for that. When nobody has followed such a job for
// limits.Follower, it fails: its trainers and servers would wait for ever. A follower that comes back in time goes on. A follower that is slow counts as
// one as long as its stream lives.
type followers struct {
	job     *Job
	changed chan struct{} // holds a value when the limit may have moved

	// Guarded by job.mu.
	streams  int       // of followers that watch
	seen     time.Time // when the last follower went, or acknowledged a step; at first the begin of the job
	finishes bool      // the job is asked to end: nobody needs to follow it
}

func newFollowers(j *Job) *followers {
	return &followers{job: j, changed: make(chan struct{}, 1), seen: j.began}
}

// change changes what the limit depends on.
func (f *followers) change(streams int, finishes bool) {
	f.job.withLock(func() {
		f.streams += streams
		f.seen, f.finishes = time.Now(), f.finishes || finishes
	})
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// until returns when the job fails, unless a follower comes before. job.mu is held.
func (f *followers) until() (at time.Time, ok bool) {
	return f.seen.Add(f.job.limits.Follower), f.job.spec.MaxAhead > 0 && f.streams == 0 && !f.finishes
}

// watch ends the job with stop when nobody has followed it for too long. It works until ctx ends.
func (f *followers) watch(ctx context.Context, stop context.CancelCauseFunc) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.changed:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		f.job.mu.Lock()
		at, ok := f.until()
		f.job.mu.Unlock()
		switch left := time.Until(at); {
		case !ok:
			timer.Stop()
		case left > 0:
			timer.Reset(left)
		default:
			stop(fault.E(fault.DeadlineExceeded, fault.Gotf("no follower that acknowledges steps within %v", f.job.limits.Follower),
				fault.Want("a follower, because the job has max_ahead"), fault.Hint("its client has gone; raise start_deadline to give it more time")))
			return
		}
	}
}

// waits returns the wait for a follower. job.mu is held.
func (f *followers) waits() []*job.Wait {
	at, ok := f.until()
	if !ok {
		return nil
	}
	return []*job.Wait{{Who: supervisor, What: "a follower of the job, to acknowledge steps", Since: timestamppb.New(f.seen), Until: timestamppb.New(at)}}
}
