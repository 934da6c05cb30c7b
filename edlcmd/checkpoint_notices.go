package edlcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// checkpointsEvery is how often somebody who follows a job asks for its checkpoints at most.
const checkpointsEvery = 15 * time.Second

// checkpointNotices tells who follows a job that its checkpoints fail, and that they are made again. Training goes on meanwhile, so nothing else would say so.
type checkpointNotices struct {
	client *remote.Client
	id     string
	to     io.Writer // nil: nobody is told

	next    time.Time // when the listener may be asked again
	failing bool      // as was told last
}

// watch returns each with a look at the checkpoints between two steps. each may be nil.
func (t *checkpointNotices) watch(ctx context.Context, each func(executor.StepResult) error) func(executor.StepResult) error {
	t.next = time.Now().Add(checkpointsEvery)
	return func(s executor.StepResult) error {
		if time.Now().After(t.next) {
			t.look(ctx, false)
		}
		if each == nil {
			return nil
		}
		return each(s)
	}
}

// look asks for the checkpoints, and tells what is new, or with last what is wrong. If the listener does not answer, it tells nothing.
func (t *checkpointNotices) look(ctx context.Context, last bool) {
	if t.to == nil || t.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if d, err := t.client.Show(ctx, t.id); err == nil {
		t.tell(d.Queues.GetCheckpoint(), d.Status.GetEarlierSteps(), last)
	}
	t.next = time.Now().Add(checkpointsEvery)
}

// tell tells of checkpoints of a job that has begun after so many steps.
func (t *checkpointNotices) tell(k *job.CheckpointStatus, begun uint64, last bool) {
	failing := k.GetFailingSinceMs() > 0
	if failing != t.failing || failing && last {
		fmt.Fprintf(t.to, "edl: checkpoint: %s\n", checkpointText(k, begun))
	}
	t.failing = failing
}
