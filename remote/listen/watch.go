package listen

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A watcher takes over what the coordinators of a job tell, one after the other, and knows where it is in what the last one tells.
type watcher struct {
	job    *Job
	client rpc.CoordinatorClient

	// Guarded by job.mu.
	fence uint64             // of the coordinator that has told something last
	next  uint64             // number of its next event
	cut   context.CancelFunc // ends the stream that is read; nil: none
	all   chan struct{}      // closed when a coordinator has told that the job has ended well: there is no more to tell
}

func newWatcher(j *Job, client rpc.CoordinatorClient) *watcher {
	return &watcher{job: j, client: client, all: make(chan struct{})}
}

// watch takes over events until ctx has ended.
func (w *watcher) watch(ctx context.Context) {
	w.job.again(ctx, "the steps of the job", func() error {
		ctx, cut := context.WithCancel(ctx)
		defer cut()
		m := &rpc.WatchRequest{Job: w.job.ID}
		w.job.enter(func() { w.cut, m.Fence, m.From = cut, w.fence, w.next })
		stream, err := w.client.Watch(ctx, m, grpc.WaitForReady(true)) // as soon as there is a coordinator, because its job may be short
		for err == nil {
			var m *rpc.WatchResponse
			if m, err = stream.Recv(); err == nil {
				err = w.take(ctx, m)
			}
		}
		if ctx.Err() != nil {
			return io.EOF
		}
		return err
	})
}

// forget leaves out what is still to come of a history that has ended. job.mu is held.
func (w *watcher) forget() {
	if w.cut != nil {
		w.cut()
	}
	w.all = make(chan struct{})
}

// told is closed when all of this history has been told.
func (w *watcher) told() <-chan struct{} {
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	return w.all
}

// take enters one event of a stream, which ends with ctx.
func (w *watcher) take(ctx context.Context, m *rpc.WatchResponse) error {
	j, step := w.job, m.Event.GetStep()
	var first, told bool
	j.mu.Lock()
	if ctx.Err() != nil {
		j.mu.Unlock()
		return ctx.Err()
	}
	missed, err := w.place(m)
	if missed > 0 {
		j.miss(missed)
	}
	if s := m.Event.GetStatus(); s != nil && err == nil {
		w.end(s)
	}
	if step != nil && err == nil {
		first, told = j.enterStep(step)
	}
	j.mu.Unlock()
	if missed > 0 {
		j.manager.cfg.Log.Warn("steps of the job were told and forgotten before they were heard", "job", j.ID, "missed", missed)
	}
	if first {
		j.setState(job.State_RUNNING, nil)
	}
	if told {
		j.events.Add(m.Event)
	}
	return err
}

// place finds an event among those that its coordinator tells, and returns how many before it were missed. Whatever a deposed coordinator says after
// the one that followed it is void. job.mu is held.
func (w *watcher) place(m *rpc.WatchResponse) (missed uint64, err error) {
	wrong := func(got, want string) error {
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Got(got), fault.Want(want))
	}
	switch {
	case m.Fence < w.fence:
		return 0, wrong(fmt.Sprintf("an event of the one of fence %d", m.Fence), fmt.Sprintf("one of fence %d", w.fence))
	case m.Fence > w.fence:
		w.fence, w.next = m.Fence, 0
	}
	if m.Number < w.next {
		return 0, wrong(fmt.Sprintf("event %d", m.Number), fmt.Sprintf("event %d or a later one", w.next))
	}
	missed, w.next = m.Number-w.next, m.Number+1
	return missed, nil
}

// end takes over the last word of a coordinator. job.mu is held.
func (w *watcher) end(s *job.JobStatus) {
	w.job.reported = wire.FaultOf(s.Failure)
	if s.State != job.State_SUCCEEDED {
		return // another may go on
	}
	select {
	case <-w.all:
	default:
		close(w.all)
	}
}
