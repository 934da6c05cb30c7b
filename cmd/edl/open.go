package main

import (
	"errors"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// everything is the part of a batch that one machine reads.
var everything = dataset.Part{}

// openExecutor returns what runs p as spec describes it, with the parameters that spec names. It is the one place where a run
// becomes local or remote.
func openExecutor(spec *job.JobSpec, p *program.Program) (executor.Executor, error) {
	options := []executor.Option{executor.WithWorkers(int(spec.Workers))}
	if spec.NoFiniteCheck {
		options = append(options, executor.WithoutFiniteCheck())
	}
	local := executor.New(options...)
	if spec.Params == "" {
		return local, nil
	}
	if err := executor.LoadParams(local.Scope(), spec.Params, p); err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// closeExecutor ends an executor at the end of a command, whose error it may become.
func closeExecutor(e executor.Executor, err *error) {
	if closed := e.Close(); *err == nil {
		*err = closed
	}
}
