package listen

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// followers knows whether the client of a job lives, if the job cannot go on without it: the client that acknowledges the steps of a job with
// max_ahead, or evaluations, or that feeds a fed job. A client lives as long as it watches the job as a follower, or a step of it is under way. It may be slow or idle.
// When it has been gone for limits.Follower, the trainers and servers would wait for ever, so the job fails:
//
//	client lives <--> client is gone --limits.Follower--> job with max_ahead: stopped
//	                                                      fed job: ends in good order --limits.Follower--> stopped
//
// A fed job leaves the state of its last step, as far as it can, and does not save its model. A client that comes back before the limit goes on.
type followers struct {
	job     *Job
	changed chan struct{} // holds a value when the limit may have moved

	// Guarded by job.mu.
	streams  int       // of clients that live
	seen     time.Time // when the last client went, or acknowledged a step; at first the begin of the job
	finishes bool      // a user has asked the job to end: no client is needed
	gone     error     // why a fed job ends in good order; nil: it does not
	ending   time.Time // when gone was set
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
	f.wake()
}

func (f *followers) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// until returns when something happens, unless a client comes before. job.mu is held.
func (f *followers) until() (at time.Time, ok bool) {
	if f.gone != nil {
		return f.ending.Add(f.job.limits.Follower), true
	}
	return f.seen.Add(f.job.limits.Follower), (f.job.spec.MaxAhead > 0 || f.job.spec.Evaluation.GetWaits() || f.job.spec.Fed) && f.streams == 0 && !f.finishes
}

// watch ends the job when its client has been gone for too long, with stop if it must. It works until ctx ends.
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
		at, ok, err := f.check()
		switch {
		case err != nil:
			stop(err)
			return
		case ok:
			timer.Reset(time.Until(at))
		default:
			timer.Stop()
		}
	}
}

// check does what is due: it lets a fed job end in good order, or returns the error with which the job is to be stopped. Else it returns when it is
// to be called again; ok is false when only a change makes that necessary.
func (f *followers) check() (at time.Time, ok bool, stop error) {
	f.job.mu.Lock()
	defer f.job.mu.Unlock()
	at, ok = f.until()
	switch {
	case !ok || time.Until(at) > 0:
		return at, ok, nil
	case f.gone != nil:
		return at, false, f.gone
	case !f.job.spec.Fed:
		return at, false, f.missing()
	}
	f.gone, f.ending = f.missing(), time.Now()
	f.job.finishing.wantLocked(nil, true)
	at, ok = f.until()
	return at, ok, nil
}

// missing is the error of a job whose client is gone.
func (f *followers) missing() error {
	limit := f.job.limits.Follower
	if f.job.spec.Fed {
		return fault.E(fault.DeadlineExceeded, fault.Gotf("no client that feeds the job within %v", limit),
			fault.Want("a client that lives, because the job is fed"),
			fault.Hint("its client has gone without Close; raise start_deadline to give it more time"))
	}
	return fault.E(fault.DeadlineExceeded, fault.Gotf("no follower that acknowledges steps within %v", limit),
		fault.Want("a follower, because the job waits for its acknowledgements: of steps, by max_ahead, or of evaluations"), fault.Hint("its client has gone; raise start_deadline to give it more time"))
}

// abandoned returns why a fed job has ended in good order; nil when its client has not gone.
func (f *followers) abandoned() error {
	f.job.mu.Lock()
	defer f.job.mu.Unlock()
	return f.gone
}

// waits returns the wait for the client. job.mu is held.
func (f *followers) waits() []*job.Wait {
	at, ok := f.until()
	if !ok {
		return nil
	}
	w := &job.Wait{Who: supervisor, What: "a follower of the job, to acknowledge steps", Since: timestamppb.New(f.seen), Until: timestamppb.New(at)}
	switch {
	case f.gone != nil:
		w.What, w.Since, w.LastError = "the end of the job in good order", timestamppb.New(f.ending), f.gone.Error()
	case f.job.spec.Fed:
		w.What = "the client that feeds the job"
	}
	return []*job.Wait{w}
}
