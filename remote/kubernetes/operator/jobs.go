package operator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A SubmitFunc sends the job of a file to the listener. program is what programFrom names; nil: the file names a path.
type SubmitFunc func(ctx context.Context, f *jobspec.File, program []byte) error

// jobs are those of a listener.
type jobs struct {
	client *remote.Client
	submit SubmitFunc

	group  sync.WaitGroup
	mu     sync.Mutex
	losses map[string]*loss // by name of the job, of jobs that are looked at
}

// Times that calls of the listener may take. A job that is suspended or stopped makes a checkpoint, and ends its pods.
const (
	callTime = 10 * time.Second
	actTime  = 2 * time.Minute
)

// find returns the last job with a label; nil: the listener knows none. ctx is that of the operator: losses are followed until it ends.
func (js *jobs) find(ctx context.Context, uid string) (*Job, error) {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	list, err := remote.FindJobs(call, js.client, remote.JobFilter{Labels: map[string]string{LabelUID: uid}, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	s := list[0]
	l := js.follow(ctx, s.Job)
	var d *rpc.JobDetails
	if d, err = remote.Known(call, js.client, s.Job); err != nil {
		return nil, err
	}
	if s = d.Status; view.Ended(s) {
		select {
		case <-l.done: // of the last steps
		case <-call.Done():
			return nil, call.Err()
		}
	}
	return jobOf(d, l.last(), list[0].Resumable), nil
}

// jobOf makes a Job of what a listener knows.
func jobOf(d *rpc.JobDetails, last *string, resumable bool) *Job {
	s := d.Status
	j := &Job{Name: s.Job, State: view.State(s), Ended: view.Ended(s), Succeeded: s.State == job.State_SUCCEEDED, Suspended: s.State == job.State_WAITING && s.Suspended,
		Restarts: resumable && listen.EndedWithListener(s), Running: int32(view.Running(s)), Steps: int64(min(view.Steps(s), math.MaxInt64)), Records: view.Records(s), Loss: last,
		Submitted: time.UnixMilli(s.SubmittedMs)}
	if s.EndedMs > 0 {
		j.Ends = time.UnixMilli(s.EndedMs)
	}
	switch {
	case s.Failure != nil:
		j.Message = wire.FaultOf(s.Failure).Error()
	case s.State == job.State_WAITING:
		j.Message = s.Waiting
	case s.Paused != "":
		j.Message = s.Paused
	case s.Waiting != "":
		j.Message = "waits for " + s.Waiting
	case len(d.Waits) > 0 && !j.Ended && j.Running == 0:
		j.Message = waitText(d.Waits[0])
	}
	for _, r := range s.Roles {
		j.Gone += int(r.Starts)
		if r.State == job.State_RUNNING || r.State == job.State_STARTING {
			j.Gone--
		}
	}
	j.Progress, j.TimeLeft = progress(d)
	if k := d.GetQueues().GetCheckpoint(); k.GetName() != "" {
		j.Saved = text(fmt.Sprintf("%s@%d", k.Store, k.Steps))
	}
	if !j.Ended {
		j.Waits = waitsOf(d.Waits, time.Now())
	}
	return j
}

// maxWaits is how many waits a status has: those of more roles have the same cause.
const maxWaits = 8

// waitsOf are the waits of a status: those that have lasted. Others, as of each round that goes on, are over when somebody reads them.
func waitsOf(waits []*job.Wait, now time.Time) (list []Wait) {
	for _, w := range waits {
		if len(list) == maxWaits {
			break
		}
		one := Wait{Who: shortened(w.Who), What: shortened(w.What), By: w.By[:min(len(w.By), maxWaits)], LastError: shortened(w.LastError)}
		if w.Since != nil {
			if now.Sub(w.Since.AsTime()) < lookSoon {
				continue
			}
			at := metav1.NewTime(w.Since.AsTime().Truncate(time.Second))
			one.Since = &at
		}
		list = append(list, one)
	}
	return list
}

func waitText(w *job.Wait) string {
	text := w.Who + " waits for " + w.What
	if w.LastError != "" {
		text += ": " + w.LastError
	}
	return text
}

// progress is which part of the records of all passes is trained, in percent, and how long the rest takes if it goes on so. Of data that grows it is not known.
func progress(d *rpc.JobDetails) (percent *int32, left *string) {
	var all float64
	for _, q := range d.GetQueues().GetQueues() {
		if q.Following || q.Passes <= 0 {
			return nil, nil
		}
		all += float64(q.Records) * float64(q.Passes)
	}
	s := d.Status
	done := float64(view.Records(s))
	if all <= 0 {
		return nil, nil
	}
	part := min(done/all, 1)
	n := int32(part * 100)
	if s.State == job.State_RUNNING && s.Records > 0 && s.Seconds > 0 && done < all {
		seconds := (all - done) * s.Seconds / float64(s.Records)
		if seconds < math.MaxInt32 {
			text := (time.Duration(seconds) * time.Second).String()
			left = &text
		}
	}
	return &n, left
}

// A loss is the value by which a job is judged, as its steps have told it last.
type loss struct {
	done chan struct{} // closed when no more is heard

	mu   sync.Mutex
	text *string
}

func (l *loss) last() *string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// follow hears the steps of a job, until it has ended.
func (js *jobs) follow(ctx context.Context, name string) *loss {
	js.mu.Lock()
	defer js.mu.Unlock()
	if l := js.losses[name]; l != nil {
		return l
	}
	l := &loss{done: make(chan struct{})}
	js.losses[name] = l
	js.group.Go(func() {
		defer close(l.done)
		_ = remote.WatchScalars(ctx, js.client, name, 0, func(_ uint64, events []*job.Event) error { // a stream that breaks: the last value stays
			for _, e := range slices.Backward(events) {
				if step := e.GetStep(); step != nil && len(step.Fetched) > 0 {
					l.take(step.Fetched[0])
					break
				}
			}
			return nil
		})
	})
	return l
}

// maxScalar bounds the encoded value of a step that is looked at, in bytes.
const maxScalar = 128

func (l *loss) take(v *job.Value) {
	if len(v.Stream) > maxScalar {
		return
	}
	value, err := tensor.DecodeFile(v.Stream, tensor.Limits{Bytes: maxScalar})
	if err != nil || value.Len() != 1 {
		return
	}
	text := strconv.FormatFloat(executor.Scalar(value), 'g', 6, 64)
	l.mu.Lock()
	l.text = &text
	l.mu.Unlock()
}

// forget drops what was heard of a job whose resource needs it no more.
func (js *jobs) forget(name string) {
	js.mu.Lock()
	delete(js.losses, name)
	js.mu.Unlock()
}

// act carries out a verb that is for the listener.
func (js *jobs) act(ctx context.Context, name string, d Decision) error {
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	switch d.Verb {
	case Stop:
		return js.client.Stop(ctx, name)
	case Suspend:
		return remote.Suspend(ctx, js.client, name)
	case Resume, GoOn:
		_, err := remote.Resume(ctx, js.client, &rpc.ResumeJobRequest{Job: name})
		return err
	case Scale:
		_, err := js.client.Scale(ctx, name, int(d.Trainers))
		return err
	}
	return nil
}
