package listen_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
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

// waitsForClient returns the wait of a job for the client that feeds it, nil when there is none.
func waitsForClient(t *testing.T, j *listen.Job) (wait *job.Wait) {
	for _, w := range j.Why(bounded(t)).Waits {
		if w.What == "the client that feeds the job" {
			wait = w
		}
	}
	return wait
}

// A fed job whose client is gone fails with the reason, and keeps the state of its steps. Before that, it says for whom it waits, and until when.
// While the client watches it, it waits for nobody.
func TestFedJobWithoutItsClient(t *testing.T) {
	t.Parallel()
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	spec := fed(t)
	spec.KeepState, spec.Save = true, t.TempDir()
	j := h.begin(t, spec)
	p, err := program.Decode(spec.Program, program.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(bounded(t))
	stream, err := client.Watch(ctx, &rpc.JobRequest{Job: j.ID, Follows: true})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if w := waitsForClient(t, j); w != nil {
		t.Errorf("the job waits for a client that it has: %v", w)
	}
	run := &rpc.StepRun{Call: 1}
	batch := testkit.Batch(t, p, 1, 4)
	for _, name := range slices.Sorted(maps.Keys(batch)) {
		run.Feed = append(run.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, batch[name])})
	}
	if _, err := wire.RunStep(bounded(t), "listener", client.RunStep, &rpc.Identity{Job: j.ID}, run); err != nil {
		t.Fatal(err)
	}
	leave()
	var wait *job.Wait
	eventually(t, func() bool { wait = waitsForClient(t, j); return wait != nil })
	if wait.Until.AsTime().Sub(wait.Since.AsTime()) != patience {
		t.Errorf("the job waits for %v", wait)
	}
	listen.LoseClient(j)
	err = j.Wait(bounded(t))
	s := j.Status()
	if s.State != job.State_FAILED || !strings.Contains(fmt.Sprint(err), "deadline exceeded: got no client that feeds the job") {
		t.Errorf("%v: %v", s.State, err)
	}
	if !s.Kept || s.Progress.GetSteps() != 1 {
		t.Errorf("the job keeps (%t) %v", s.Kept, s.Progress)
	}
	if files, err := os.ReadDir(spec.Save); err != nil || len(files) > 0 {
		t.Errorf("the job has saved %v, %v", files, err)
	}
}
