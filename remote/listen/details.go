package listen

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Show returns all that is known of the job: as its servers say now, or as they said last.
func (j *Job) Show(ctx context.Context) *rpc.JobDetails {
	j.refresh(ctx)
	d := &rpc.JobDetails{Status: j.Status(), Spec: j.spec}
	j.mu.Lock()
	defer j.mu.Unlock()
	d.Queues, d.Ledger = j.known.queues, j.known.ledger
	return d
}

// entriesTime bounds the reading of all entries of a coordinator.
const entriesTime = time.Minute

// ShowEntries is Show with the durable entries of the coordinator, which there are while the job runs.
func (j *Job) ShowEntries(ctx context.Context) (*rpc.JobDetails, error) {
	j.mu.Lock()
	c := j.crew
	j.mu.Unlock()
	if c == nil {
		return nil, fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that does not run"),
			fault.Want("one that does: its queues are not kept"))
	}
	d := j.Show(ctx)
	ctx, cancel := context.WithTimeout(ctx, entriesTime)
	defer cancel()
	q, err := wire.Queues(ctx, c.peers.coordinator, &rpc.QueuesRequest{Job: j.ID, Entries: true})
	d.Queues = q
	return d, err
}

// Scale changes how many trainers the job wants. The supervisor hears of it through the registry, and so does the coordinator. A job whose roles have
// not been started yet begins with that number.
func (j *Job) Scale(ctx context.Context, trainers int32) error {
	where := "job " + j.ID
	if j.spec.TrainersMax == j.spec.Trainers {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers for a job that always has %d", trainers, j.spec.Trainers),
			fault.Want("an elastic job"), fault.Hint("start it with --trainers MIN:MAX"))
	}
	if trainers < j.spec.Trainers || trainers > j.spec.TrainersMax {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("%d trainers", trainers),
			fault.Wantf("%d to %d", j.spec.Trainers, j.spec.TrainersMax))
	}
	j.mu.Lock()
	c, starting := j.crew, !j.hasBegun()
	if starting {
		j.wanted, j.status.Trainers = trainers, trainers
	}
	j.mu.Unlock()
	switch {
	case starting:
		return nil
	case c == nil:
		return fault.E(fault.Unavailable, fault.At(where), fault.Got("a job that does not run"))
	}
	return c.registry.SetTrainers(ctx, int(trainers))
}

// hasBegun reports whether the job has had a crew, or will have none. j.mu is held.
func (j *Job) hasBegun() bool {
	select {
	case <-j.manned:
		return true
	default:
		return j.Ended()
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
