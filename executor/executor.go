// Package executor runs programs on this machine: it says when things happen.
//
// A Scope holds the variables that live from step to step. A block is compiled once per feed shape into a plan, a flat list of
// kernels bound to pre-planned memory, and a plan is run once per step; a step after the first allocates nothing. New returns
// the local Executor; package remote has one of the same interface that runs the program on many machines, so a user changes
// one constructor to go from one to the other.
package executor

import (
	"context"
	"time"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Feed gives values to variables of a program by name.
type Feed map[string]*tensor.Tensor

// An Executor runs programs. Local and remote executors differ in nothing that a caller of this interface can see, except
// speed.
type Executor interface {
	// Run runs one step: it feeds, runs the global block of p once, and returns the variables named by fetch, in that
	// order, as tensors that belong to the caller. The first Run of a program whose persistable variables have no value yet runs
	// p.Startup before.
	Run(ctx context.Context, p *program.Program, feed Feed, fetch ...string) ([]*tensor.Tensor, error)

	// Train runs a program that reads its own data until its passes are done. each, which may be nil, is called after every step, in order,
	// with the variables named by fetch; an error from it ends the run.
	Train(ctx context.Context, p *program.Program, run TrainOptions, each func(StepResult) error) (Summary, error)

	// Close ends what the executor started.
	Close() error
}

// TrainOptions says what a run to the end binds and reports.
type TrainOptions struct {
	Data   map[string][]string // dataset name in the program -> globs of record files
	Passes int                 // how often the dataset is read; 0 means as often as the program says, which is once by default
	Fetch  []string            // variables reported with every step
	Save   string              // directory to save persistable variables to afterwards; empty for none
	Params string              // directory or combined file to start from instead of the startup program; empty for none
}

// StepResult is what one step of training reports.
type StepResult struct {
	Pass     int    // from 0
	Step     uint64 // from 0, over all passes
	Rows     int64  // rows of the batch, over all trainers
	Trainers int    // that the batch was divided among; 1 where it was not
	// Unreported is how many of Rows Fetched does not stand for, because the trainers that had them were lost before they had reported the step.
	Unreported int64
	Fetched    []*tensor.Tensor // valid until the callback returns
}

// Summary is what a finished run reports.
type Summary struct {
	Passes  int           // that were completed
	Steps   uint64        // over all passes
	Records int64         // over all passes and trainers
	Elapsed time.Duration // of training
}
