package exampletest

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Steps returns an executor whose Run keeps what is fetched, for programs that are fed.
func Steps(exe executor.Executor) *Recorder {
	return &Recorder{Executor: exe, Fetched: map[string][]byte{}}
}

// A Recorder is an executor that remembers.
type Recorder struct {
	executor.Executor
	Fetched map[string][]byte // by name and step
	steps   int
}

// Run implements executor.Executor.
func (r *Recorder) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	out, err := r.Executor.Run(ctx, p, feed, fetch...)
	for i, v := range out {
		r.Fetched[fmt.Sprintf("%s of step %d", fetch[i], r.steps)] = tensor.AppendStream(nil, v)
	}
	r.steps++
	return out, err
}
