package listen

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Finish ends a job in good order and waits for its end. A fed job ends after its feeds, another one as soon as it can. With after, the step of that
// number is the last, unless later steps have begun already. withoutSave leaves the saving of the model out. The job ends so even if its coordinator
// is lost meanwhile, if it starts over, or if ctx ends.
func (j *Job) Finish(ctx context.Context, after *uint64, withoutSave bool) error {
	if _, err := j.coordinator(ctx); err != nil {
		return err
	}
	j.followers.change(0, true)
	refused := j.finishing.want(after, withoutSave)
	select {
	case <-j.done:
		return wire.FaultOf(j.Status().Failure)
	case <-refused.said:
		return refused.err
	case <-ctx.Done():
		return fault.Wrap(fault.Canceled, "job "+j.ID, context.Cause(ctx))
	}
}

// finishing is the wish of users that a job ends in good order. The coordinator of each attempt is told of it, until it has made the wish durable. Of
// several wishes the one for the earliest end counts.
//
// An attempt after the first trains at least the steps that were told before, and the steps that an earlier coordinator has promised.
type finishing struct {
	job     *Job
	changed chan struct{} // holds a value when there is something to tell

	// Guarded by job.mu.
	wishes      int // how many there were
	told        int // how many of them the coordinator of this attempt has made durable
	after       *uint64
	withoutSave bool
	promised    uint64             // steps that the job has, as an earlier coordinator has said; sync only
	cut         context.CancelFunc // ends the call that is under way; nil: none
	refusal     *refusal           // of the wishes that no coordinator has made durable
}

// A refusal is the answer of a coordinator that the job cannot end so.
type refusal struct {
	said chan struct{} // closed when err is set
	err  error
}

func newFinishing(j *Job) *finishing {
	return &finishing{job: j, changed: make(chan struct{}, 1), refusal: &refusal{said: make(chan struct{})}}
}

// want adds a wish, and returns where its refusal is told.
func (f *finishing) want(after *uint64, withoutSave bool) *refusal {
	f.job.telling.Lock()
	defer f.job.telling.Unlock()
	f.job.mu.Lock()
	refusal := f.wantLocked(after, withoutSave)
	f.job.mu.Unlock()
	tell(f.job, false)
	return refusal
}

// wantLocked is want. job.mu is held.
func (f *finishing) wantLocked(after *uint64, withoutSave bool) *refusal {
	switch {
	case f.wishes == 0:
		f.after = after
	case after == nil:
		f.after = nil
	case f.after != nil:
		f.after = new(min(*f.after, *after))
	}
	f.withoutSave = f.withoutSave || withoutSave
	f.wishes++
	f.tell()
	return f.refusal
}

// forget notes that an attempt has ended: the coordinator of the next one is told again. job.mu is held.
func (f *finishing) forget() {
	if f.cut != nil {
		f.cut()
	}
	if f.told = 0; f.wishes > 0 {
		f.tell()
	}
}

// tell wakes passOn.
func (f *finishing) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// passOn tells the coordinators of the job, until ctx ends. It names the history of the steps that w enters.
func (f *finishing) passOn(ctx context.Context, client rpc.CoordinatorClient, w *watcher) {
	for {
		select {
		case <-f.changed:
		case <-ctx.Done():
			return
		}
		retry(ctx, f.job, "the end of the job", func() error { return f.call(ctx, client, w) })
	}
}

// call tells a coordinator once. An error means that the call is to be repeated.
func (f *finishing) call(ctx context.Context, client rpc.CoordinatorClient, w *watcher) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	var m *rpc.FinishDataRequest
	var wishes int
	f.job.withLock(func() {
		if wishes = f.wishes; f.told < wishes {
			f.cut, m = cut, f.message()
			m.History = new(w.history)
		}
	})
	if m == nil {
		return nil
	}
	r, err := client.Finish(ctx, m)
	err = wire.FromStatus("coordinator", err)
	f.job.mu.Lock()
	defer f.job.mu.Unlock()
	f.cut = nil
	switch {
	case ctx.Err() != nil: // the attempt has ended, and what its coordinator has said does not count
		return io.EOF
	case err == nil:
		f.told = wishes
		if f.job.spec.Mode == job.Mode_SYNC {
			f.promised = r.Steps
		}
	case errors.Is(err, fault.Unavailable), errors.Is(err, fault.Canceled):
		return err
	default:
		f.told = wishes
		f.refusal.err = err
		close(f.refusal.said)
		f.refusal = &refusal{said: make(chan struct{})}
	}
	if f.told < f.wishes {
		f.tell()
	}
	return nil
}

// message is what the coordinator of this attempt is told. job.mu is held.
func (f *finishing) message() *rpc.FinishDataRequest {
	m := &rpc.FinishDataRequest{Id: identityOf(f.job), AfterStep: f.after, WithoutSave: f.withoutSave}
	if f.job.status.Attempt == 0 || f.job.spec.Mode != job.Mode_SYNC {
		return m
	}
	steps := f.promised
	if steps == 0 {
		steps = f.job.told
		if f.after != nil {
			steps = max(steps, *f.after+1)
		}
	}
	if steps > f.job.begin {
		m.AfterStep = new(steps - 1)
	}
	return m
}
