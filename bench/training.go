package bench

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// A Training is a workload that is ready to run.
type Training struct {
	local    *executor.Local
	prepared *executor.Prepared
	batches  []executor.Feed
}

// Start compiles a workload for a number of threads and gives its parameters their initial values. Close ends it.
func Start(ctx context.Context, w *Workload, threads int) (*Training, error) {
	local := executor.New(executor.WithWorkers(threads))
	prepared, err := local.Prepare(ctx, w.Program, w.Batches[0], w.Fetch)
	if err != nil {
		local.Close()
		return nil, err
	}
	return &Training{local, prepared, w.Batches}, nil
}

// Step feeds the batch that is i-th in turn, runs the program, and returns what it fetches: the loss, which is valid until the next step.
func (t *Training) Step(ctx context.Context, i int) (*tensor.Tensor, error) {
	fetched, err := t.prepared.Run(ctx, t.batches[i%len(t.batches)])
	if err != nil {
		return nil, err
	}
	return fetched[0], nil
}

// Close ends what Start started.
func (t *Training) Close() error { return t.local.Close() }
