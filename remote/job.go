package remote

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Job is a job that was submitted.
type Job struct {
	ID     string
	client *Client
	fetch  []string
}

// stopTime bounds the stopping of a job whose follower has given up.
const stopTime = 20 * time.Second

// Follow calls each, which may be nil, with every step from the first on, and returns when the job has ended, with the reason when it failed. When
// ctx ends, or each returns an error, the job is stopped. A job that has lost a pserver begins again: each is then called with step 0 once more, and
// the summary is that of the last history. A step that no trainer lived to report, or without one of the values that the job fetches, or that the
// listener has forgotten before it was read, because each is slower than the job, is counted in the summary, and each is not called; of the first it
// is not known how many records it had.
func (j *Job) Follow(ctx context.Context, each func(executor.StepResult) error) (executor.Summary, error) {
	var summary executor.Summary
	status, err := j.client.Watch(ctx, j.ID, func(e *job.Event) error {
		if e.GetStatus().GetState() == job.State_STARTING {
			summary = executor.Summary{} // the first beginning, or a new one
		}
		step := e.GetStep()
		if step == nil {
			return nil
		}
		summary.Steps = step.Step + 1 // steps are numbered without gaps, though not all are told
		summary.Records += step.Rows
		summary.Passes = max(summary.Passes, int(step.Pass)+1)
		if each == nil || len(step.Fetched) < len(j.fetch) {
			return nil
		}
		fetched, err := decodeAll(step.Fetched, j.fetch)
		if err != nil {
			return err
		}
		return each(executor.StepResult{Pass: int(step.Pass), Step: step.Step, Rows: step.Rows, Trainers: int(step.Trainers),
			Unreported: step.Unreported, Fetched: fetched})
	})
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_ = j.client.Stop(stop, j.ID) // the first error tells more
		return summary, err
	}
	summary.Records = status.Records // the listener has heard of all steps that it could
	summary.Elapsed = time.Duration(status.Seconds * float64(time.Second))
	return summary, wire.FaultOf(status.Failure)
}

// decodeAll returns values in the order of names. A step in which nothing was fetched, because it had no rows, gives none.
func decodeAll(values []*job.Value, names []string) ([]*tensor.Tensor, error) {
	if len(values) == 0 {
		return nil, nil
	}
	byName := map[string]*job.Value{}
	for _, v := range values {
		byName[v.Name] = v
	}
	out := make([]*tensor.Tensor, len(names))
	for i, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, fault.E(fault.Internal, fault.Var(name), fault.Gotf("%d fetched values without it", len(values)))
		}
		t, _, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		out[i] = t
	}
	return out, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
