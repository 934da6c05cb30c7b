package remote

import (
	"context"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// Train implements executor.Executor: it submits p as a job that reads its own data and follows it to its end. When ctx ends, the job is stopped.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	j, err := e.Submit(ctx, p, run)
	if err != nil {
		return executor.Summary{}, err
	}
	return j.Follow(ctx, each)
}

// Submit sends p as a job that reads its own data. The job goes on without this process, unless the listener is embedded.
func (e *Executor) Submit(ctx context.Context, p *program.Program, run executor.TrainOptions) (*Job, error) {
	spec := proto.Clone(e.spec).(*JobSpec)
	var err error
	if spec.Program, err = p.Encode(); err != nil {
		return nil, err
	}
	spec.Data, spec.Fed = nil, false
	for _, name := range sortedNames(run.Data) {
		binding := &job.DataBinding{Dataset: name, Globs: slices.Clone(run.Data[name]), Follow: follows(e.spec, name)}
		for i, glob := range binding.Globs {
			if binding.Globs[i], err = dataset.Absolute(glob); err != nil {
				return nil, err
			}
		}
		spec.Data = append(spec.Data, binding)
	}
	if run.Passes > 0 {
		spec.Passes = int32(run.Passes)
	}
	spec.Fetch, spec.Save, spec.Params = run.Fetch, run.Save, run.Params
	if err := absolute(&spec.Save, &spec.Params); err != nil {
		return nil, err
	}
	id, err := e.client.Submit(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &Job{ID: id, client: e.client, fetch: run.Fetch}, nil
}

// follows reports whether the template of jobs says that a dataset grows.
func follows(spec *JobSpec, name string) bool {
	return slices.ContainsFunc(spec.Data, func(d *job.DataBinding) bool { return d.Dataset == name && d.Follow })
}

// absolute makes paths mean the same in processes with other working directories.
func absolute(paths ...*string) error {
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, *p, err)
		}
		*p = abs
	}
	return nil
}
