package main

import (
	"errors"
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
)

// profiled makes the runs of a place on this machine record when each op ran. The returned function writes the record to path; it is to be called
// when the run has ended, with the error of the run, which it passes on.
func (where *place) profiled(path string) (write func(error) error, err error) {
	if path == "" {
		return func(err error) error { return err }, nil
	}
	if where.remote {
		return nil, fault.E(fault.InvalidArgument, fault.At("--profile"), fault.Got("a run on a cluster"), fault.Want("a run on this machine"))
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "--profile", err)
	}
	where.profile = new(executor.Profile)
	return func(err error) error {
		return errors.Join(err, where.profile.WriteTrace(f), f.Close())
	}, nil
}
