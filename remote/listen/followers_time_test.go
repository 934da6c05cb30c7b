package listen

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// On a clock of the test: a client that lives never loses its job, however long it is idle. When it has been gone for the limit, the job is asked to
// end in good order, and stopped when it has not ended after the same time again.
func TestAFedJobEndsAfterItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		spec := &job.JobSpec{Fed: true, StartDeadline: durationpb.New(limit)}
		j := &Job{spec: spec, limits: jobspec.DeadlinesOf(spec), began: time.Now()}
		j.finishing, j.followers = newFinishing(j), newFollowers(j)

		ctx, stop := context.WithCancelCause(t.Context())
		watched := make(chan struct{})
		go func() { defer close(watched); j.followers.watch(ctx, stop) }()
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		asked := func() int { j.mu.Lock(); defer j.mu.Unlock(); return j.finishing.wishes }

		after(limit - 1)
		j.followers.change(+1, false)
		after(100 * limit)
		if asked() > 0 || len(j.followers.waits()) > 0 {
			t.Error("a job with an idle client is to end")
		}
		for range 3 { // the client comes back each time
			j.followers.change(-1, false)
			after(limit - 1)
			w := j.followers.waits()
			if len(w) != 1 || w[0].What != "the client that feeds the job" || time.Until(w[0].Until.AsTime()) != 1 ||
				w[0].Until.AsTime().Sub(w[0].Since.AsTime()) != limit {
				t.Errorf("the job waits for %v", w)
			}
			j.followers.change(+1, false)
		}
		j.followers.change(-1, false)
		after(limit)
		w := j.followers.waits()
		if asked() != 1 || !j.finishing.withoutSave || j.followers.abandoned() == nil || ctx.Err() != nil {
			t.Errorf("%d wishes for the end of the job, want one", asked())
		}
		if len(w) != 1 || w[0].What != "the end of the job in good order" || time.Until(w[0].Until.AsTime()) != limit {
			t.Errorf("the job waits for %v", w)
		}
		after(limit - 1)
		if ctx.Err() != nil {
			t.Error("the job is stopped too early")
		}
		after(1)
		if context.Cause(ctx) != j.followers.abandoned() || asked() != 1 {
			t.Errorf("the job is stopped with %v", context.Cause(ctx))
		}
		<-watched
	})
}
