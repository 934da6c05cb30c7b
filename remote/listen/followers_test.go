package listen_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
)

// lockstep is a job that waits for the acknowledgement of each step, and for a follower as long as limit says.
func lockstep(t *testing.T, limit time.Duration) *job.JobSpec {
	spec := reading(t)
	spec.MaxAhead, spec.StartDeadline = 1, durationpb.New(limit)
	return spec
}

// A job with max_ahead whose follower is gone fails, with the reason. Before that, it says for whom it waits, since when and until when.
func TestJobWithoutAFollower(t *testing.T) {
	t.Parallel()
	h := newHarness(t, listen.Config{}, all(idle))
	client := serve(t, h.Manager)
	spec := lockstep(t, time.Second)
	j := h.begin(t, spec)
	ctx, leave := context.WithCancel(bounded(t))
	stream, err := client.Watch(ctx, &rpc.JobRequest{Job: j.ID, Follows: true})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	leave()
	var wait *job.Wait
	eventually(t, func() bool {
		waits := j.Why(bounded(t)).Waits
		i := slices.IndexFunc(waits, func(w *job.Wait) bool { return strings.HasPrefix(w.What, "a follower") })
		if i >= 0 {
			wait = waits[i]
		}
		return i >= 0 || j.Ended()
	})
	if wait.GetUntil().AsTime().Sub(wait.GetSince().AsTime()) != time.Second {
		t.Errorf("the job waits for %v", wait)
	}
	err = j.Wait(bounded(t))
	if j.Status().State != job.State_FAILED || !strings.Contains(fmt.Sprint(err), "deadline exceeded: got no follower that acknowledges") {
		t.Errorf("%v: %v", j.Status().State, err)
	}
}

// A job with max_ahead does not end while somebody follows it, however slowly, or when it is asked to end.
func TestJobWithAFollower(t *testing.T) {
	t.Parallel()
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	j := h.begin(t, lockstep(t, patience))
	follows := func() func() {
		ctx, leave := context.WithCancel(bounded(t))
		stream, err := client.Watch(ctx, &rpc.JobRequest{Job: j.ID, Follows: true})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	waits := func() bool {
		return slices.ContainsFunc(j.Why(bounded(t)).Waits, func(w *job.Wait) bool { return strings.HasPrefix(w.What, "a follower") })
	}
	leave := follows()
	if waits() {
		t.Error("the job waits for a follower that it has")
	}
	leave()
	eventually(t, waits)
	defer follows()() // it comes back
	eventually(t, func() bool { return !waits() })
	if _, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: j.ID}); err != nil || j.Status().State != job.State_SUCCEEDED {
		t.Errorf("%v: %v", j.Status().State, err)
	}
}
