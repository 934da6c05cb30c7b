package main

import (
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// override sets the fields of spec whose flags were given, and those that have no value yet to the flags' defaults.
func (f *jobFlags) override(flags *pflag.FlagSet, spec *job.JobSpec) error {
	given := func(name string) bool { return flags.Changed(name) }
	if given("data") {
		data, err := parseData(f.data)
		if err != nil {
			return err
		}
		spec.Data = data
	}
	if given("fetch") {
		spec.Fetch = f.fetch
	}
	if given("passes") {
		spec.Passes = f.passes
	}
	if given("params") {
		spec.Params = f.params
	}
	if given("save") {
		spec.Save = f.save
	}
	if given("workers") {
		if f.workers < 1 {
			return tooFew("--workers", int64(f.workers))
		}
		spec.Workers = f.workers
	}
	if given("no-finite-check") {
		spec.NoFiniteCheck = f.noFinite
	}
	if flags.Lookup("trainers") == nil {
		return nil
	}
	return f.overrideCluster(given, spec)
}

// overrideCluster is override for the flags of addCluster, and of what a command has beside them.
func (f *jobFlags) overrideCluster(given func(name string) bool, spec *job.JobSpec) error {
	if given("trainers") || spec.Trainers == 0 {
		if err := parseTrainers(f.trainers, spec); err != nil {
			return err
		}
	}
	if given("pservers") && f.pservers < 1 {
		return tooFew("--pservers", int64(f.pservers))
	}
	if given("pservers") || spec.Pservers == 0 {
		spec.Pservers = f.pservers
	}
	if given("max-restarts") {
		if spec.MaxRestarts = f.restarts; f.restarts == 0 {
			spec.MaxRestarts = -1 // what a job specification takes for "not given"
		}
	}
	if given("max-task-failures") {
		if f.failures < 1 {
			return tooFew("--max-task-failures", int64(f.failures))
		}
		spec.MaxTaskFailures = f.failures
	}
	if given("follow") {
		if err := follow(f.follow, spec); err != nil {
			return err
		}
	}
	if given("mode") {
		spec.Mode, _ = jobspec.ParseMode(f.mode.value)
	}
	if given("min-block-size") {
		if f.minBlock < 1 {
			return tooFew("--min-block-size", f.minBlock)
		}
		spec.MinBlockSize = f.minBlock
	}
	if given("no-slice") {
		spec.NoSlice = f.noSlice
	}
	if given("split-method") {
		spec.SplitMethod = f.split.value
	}
	return nil
}

// follow marks the datasets that grow.
func follow(names []string, spec *job.JobSpec) error {
	for _, d := range spec.Data {
		d.Follow = slices.Contains(names, d.Dataset)
	}
	for _, name := range names {
		if !slices.ContainsFunc(spec.Data, func(d *job.DataBinding) bool { return d.Dataset == name }) {
			return fault.E(fault.InvalidArgument, fault.At("--follow"), fault.Got(fault.Quote(name)), fault.Want("a dataset that --data names"))
		}
	}
	return nil
}

// tooFew is the fault of a flag that was given as 0 or less, which a job specification would take for "not given".
func tooFew(flag string, n int64) error {
	return fault.E(fault.InvalidArgument, fault.At(flag), fault.Got(strconv.FormatInt(n, 10)), fault.Want("1 or more"))
}
