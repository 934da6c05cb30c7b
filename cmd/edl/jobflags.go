package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// jobFlags are the flags of a job. Commands that share them read one JobSpec from them: the job file given with -f, with the fields that
// flags set replaced.
type jobFlags struct {
	file     string
	data     []string
	passes   int32
	save     string
	params   string
	fetch    []string
	workers  int32
	alone    bool // the run has this machine's cores for itself
	noFinite bool
	follow   []string
	restarts int32
	failures int32
	trainers string
	pservers int32
	mode     *choice
	minBlock int64
	noSlice  bool
	split    *choice
}

// addTraining adds the flags that say what a run reads, and how it trains.
func (f *jobFlags) addTraining(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.data, "data", nil, "record files of a dataset of the program, as `NAME=GLOB`; repeatable")
	flags.Int32Var(&f.passes, "passes", 0, "how often the dataset is read (default: as the program says)")
	flags.StringVar(&f.params, "params", "", "parameters to start from: a directory, or one file that holds all")
	flags.Int32Var(&f.workers, "workers", 0, "goroutines that run the ops of a step (default: every core for a run without --remote, else 1)")
	flags.BoolVar(&f.noFinite, "no-finite-check", false, "go on when the loss is NaN or infinite")
}

// addCluster adds the flags that say how a program is spread over machines.
func (f *jobFlags) addCluster(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "job file (job.yaml); flags override its fields")
	flags.StringVar(&f.trainers, "trainers", "2", "number of trainers, as `N[:MAX]`; with MAX the job is elastic")
	flags.Int32Var(&f.pservers, "pservers", 2, "number of parameter servers")
	f.mode = choiceFlag(cmd, "mode", "when servers apply gradients", "sync", "async")
	flags.Int64Var(&f.minBlock, "min-block-size", 8192, "elements of the smallest slice of a parameter")
	flags.BoolVar(&f.noSlice, "no-slice", false, "keep every parameter whole on one server")
	f.split = choiceFlag(cmd, "split-method", "how slices are dealt to servers", "round_robin", "hash_name")
}

// addSupervision adds the flags that say what a job does about failures.
func (f *jobFlags) addSupervision(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int32Var(&f.restarts, "max-restarts", 10, "how often a role is started again after a failure; -1: never")
	flags.Int32Var(&f.failures, "max-task-failures", 3, "a task that fails more often is given up")
}

// spec returns the job that file and flags describe, without its program, and the path of that program: the argument, else what the job
// file names.
func (f *jobFlags) spec(cmd *cobra.Command, args []string) (*job.JobSpec, string, error) {
	spec, path := &job.JobSpec{}, ""
	if f.file != "" {
		file, err := jobspec.Load(f.file)
		if err != nil {
			return nil, "", err
		}
		spec, path = file.Spec, file.Program
	}
	if len(args) > 0 {
		path = args[0]
	}
	if err := f.override(cmd.Flags(), spec); err != nil {
		return nil, "", err
	}
	if spec.Workers == 0 && f.alone {
		spec.Workers = int32(runtime.GOMAXPROCS(0))
	}
	jobspec.Complete(spec)
	return spec, path, jobspec.Check(spec)
}
