// Package executor runs programs. Local runs them in this process; package remote has an Executor with the same contract that runs them on a cluster.
//
// Its files in reading order:
//
//   - executor.go: the contract of an Executor; check.go: the checks that every Executor makes of what a caller asks for
//   - local.go: Local and its options; stepper.go: the part of it that runs one step at a time
//   - startup.go: first values of variables; state.go: Save and Load; train.go: the loop over batches
//   - source.go: where batches come from
//   - compile.go, and internal/plan: from a program and the shapes of its feeds to a flat list of bound kernels
//   - scope.go: the variables that live from step to step; persist.go, statewriter.go and progress.go: the files of a state
//   - fetch.go, blocks.go and describe.go: what trainers fetched as one value, the blocks of a server, plans and profiles for people
//
// Compiling and running, from Run to the kernels of a step, is local.go, compile.go, and of internal/plan plan.go, infer.go, bind.go, fuse.go,
// memory.go and run.go.
package executor

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Feed gives values to variables of a program by name.
type Feed map[string]*tensor.Tensor

// ErrStop, or an error that wraps it, from the callback of Train ends the call well, after the step that the callback was given.
var ErrStop = errors.New("executor: stop training after this step")

// An Executor owns one state and runs programs on it. A user changes only the constructor to go from one machine to a cluster: calls in the same
// order have the same effects and results, but for speed and for how sums are grouped.
//
// # The state
//
// The state is the persistable variables by name (parameters, what optimizers and learning-rate schedules remember, moving statistics) and the
// Progress: how many steps were trained, and where the next batch of the data lies. A new executor has an empty state. Train, Run, Load and Save act
// on the state one at a time, in the order in which they are called.
//
//   - A program finds its variables in the state by name. What a new program shares by name with the programs before it, it takes from the state;
//     a variable that the state does not have yet gets its value from the program's startup program.
//   - A program that trains (it has update ops) changes the state step by step. A step that fails leaves the state of the step before it, or an
//     error that says otherwise. On a cluster this costs time: the executor trains again what it was fed since the state was kept last; package remote
//     says how much. A step that is cancelled is trained or not; Progress.Steps tells.
//   - A program that trains nothing (a clone for test, a pruned program for prediction) reads the state and changes nothing: also the moving statistics
//     that its ops update are as they were when it ends. The steps of one call of Train go on with what the steps before have written, and report it;
//     nobody else sees it, not even calls from the callback.
//   - Train goes on where the one before it stopped, if both read their data in the same way (same dataset name, batch size, shuffle): pass, batch,
//     shuffle, learning-rate schedule and dropout are those that one longer call would have had. So Train with one pass and then with two gives the
//     parameters of Train with three. A program that reads in another way begins at its first pass. When files were removed between two calls, no
//     batch of the pass may be left: then the next call begins with the first batch of the next pass, and the pass that is over does not count.
//   - Save writes the state of a program's variables with the Progress; Load brings both back, in this executor, another one, or one on a cluster.
//
// # Ending early
//
// ErrStop from the callback of Train ends the call well, after the step that the callback was given: the state is that of this step, it is saved if
// TrainOptions.Save says so, and the next Train goes on with the next batch. Any other error from the callback, and the end of ctx, end the call with
// that error and save nothing; the state is that of the last step that the callback was given, or of a later one.
//
// # While the callback of Train runs
//
// The callback may call methods of the executor. Such calls, and calls of other goroutines that come while the callback runs, do not wait for Train:
//
//   - Run of a program that trains nothing, and Save, see the state after the step that the callback was given; on a cluster with
//     TrainOptions.Ahead != 0, after that step or one at most Ahead later. An async job, and one with a negative Ahead, do not wait for the callback:
//     there such calls fail with fault.InvalidArgument. If the job has lost parameters and started over meanwhile, they fail with fault.LostMember.
//   - Train, Load, and Run of a program that trains fail at once with fault.InvalidArgument. Return ErrStop, and call them when Train has returned.
//   - Close gives up the call of Train, which returns an error of kind fault.Canceled, whatever the callback returns. On a cluster Close returns at once,
//     and the executor has ended when Train returns.
//
// Train does not go on before the calls that it let in have returned.
//
// Methods may be called from several goroutines. Calls wait for each other.
type Executor interface {
	// Run runs one step: it feeds, runs the global block of p once, and returns the variables named by fetch, in that order, as tensors that belong
	// to the caller. All ops run, also those that fetch does not need: Program.InferenceProgram and Program.Prune leave these out, and with them the
	// feeds that only they read. A step of a program that trains counts as one step of the Progress and leaves the position in the data alone.
	Run(ctx context.Context, p *program.Program, feed Feed, fetch ...string) ([]*tensor.Tensor, error)

	// Train runs a program that reads its own data for a number of passes. each, which may be nil, is called after every step, in order, with the
	// variables named by run.Fetch. A program without update ops is evaluated: it reads the data and changes neither variables nor Progress.
	Train(ctx context.Context, p *program.Program, run TrainOptions, each func(StepResult) error) (Summary, error)

	// Save writes the persistable variables of p and the Progress to dir, a directory of this machine that is made if need be. Every variable of p must
	// have a value. A Save that fails, as on a full disk, leaves the older state in dir untouched; one that is killed leaves the older state, the new
	// one, or a directory that Load refuses. While it runs, dir holds both states.
	Save(ctx context.Context, dir string, p *program.Program) error

	// Load takes the persistable variables of p from a directory or combined file of this machine into the state, with the Progress if there is one
	// (else the Progress begins anew). Without LoadOptions.Partial a variable that is missing there, or has other dims, is an error and nothing is
	// loaded.
	Load(ctx context.Context, from string, p *program.Program, options LoadOptions) (LoadReport, error)

	// Close ends what the executor started. The state is gone. Calls after it fail with fault.Canceled, and a second Close does nothing.
	Close() error
}

// LoadOptions says how Load treats what does not fit.
type LoadOptions struct {
	// Partial loads what is there under the same name with the same type and dims, and initialises the rest from p's startup program: a new head on
	// an old body. It takes a directory, because a combined file holds no names.
	Partial bool
	// FromStart takes the variables and begins anew otherwise: the Progress is that of a new executor, and the counter of learning-rate schedules
	// (program.LRDecayCounter) and constant learning rates are initialised from p's startup program. So data, shuffles, dropout and schedules start
	// over, and the rate is that of p. What optimizers remember is loaded. Without FromStart a constant rate is loaded, too: it is a saved variable.
	FromStart bool
}

// LoadReport lists the persistable variables of a program by what Load did with them, each list sorted.
type LoadReport struct {
	Loaded      []string
	Initialized []string // from the startup program: missing, or with another type or other dims, in what was loaded; with FromStart counter and rates
}

// Progress is the part of a state that is not a variable.
type Progress struct {
	Steps  uint64 // trained so far. The next step has this number; random ops count from it
	Pass   int    // in which the next batch lies, from 0
	Batch  uint64 // batches of that pass, without the records in Trained, that are trained
	Reader string // ReaderHash of the program that Pass and Batch belong to; empty when no data was read
	// Trained are records of Pass that were trained before its first batch, or left out. The rest of the pass is shuffled and divided into batches without
	// them. So it is where an async job, or one with backup trainers, has ended within a pass. They are the numbers of records that are not, and that are, in
	// turn, with spaces between them: "0 60 20 20" are the records 0 to 59 and 80 to 99.
	Trained string
	// Files are the files of a dataset that follows a folder, in the order in which they came, where Pass is not at its end: Batch and Trained count their records in this
	// order. It is for jobs on clusters: base64 of an encoded edl.state.Datasets. Empty: the files have the order of their names.
	Files string
}

// TrainOptions says what a run to the end binds and reports.
type TrainOptions struct {
	Data map[string][]string // dataset name in the program -> globs of record files
	// Passes is how many passes end in this call; 0 means as many as the program says, which is one by default. When the state lies within a pass, the
	// rest of that pass counts as the first.
	Passes int
	Fetch  []string // variables reported with every step
	Save   string   // directory to save to after the last step, as Save does; on a cluster, of the machine that the trainers run on. Empty for none
	Params string   // directory or combined file to load first, as Load does; on a cluster, of the machines that the roles run on. Empty for none
	// Ahead is how many steps a cluster may be ahead of the callback. With 0, a step begins only after each has returned for the step before, so that
	// ErrStop ends the run at exactly that step. A negative number sets no bound: the fastest, and ErrStop ends the run some steps later. It has no effect
	// where each is nil, in async mode, which ends as soon as it can, and on one machine, which is never ahead.
	Ahead int
}

// StepResult is what one step of training reports.
type StepResult struct {
	Pass     int    // from 0, over all calls that went on with each other
	Step     uint64 // Progress.Steps before the step. A program that trains nothing counts from 0 in each call
	Rows     int64  // rows of the batch, over all trainers
	Trainers int    // that the batch was divided among; 1 where it was not
	// Unreported is how many of Rows the fetched values do not cover, because trainers were lost before they had reported them.
	Unreported int64
	// Dropped are the trainers, by position, whose contributions do not count, in a job with backup trainers. Rows has none of their rows: they are trained
	// in later steps.
	Dropped []int
	// Attempt counts how often the call has started over on a cluster, because parameters were lost, or the number of pservers of an async job has changed: 0 for the first attempt.
	Attempt int
	// Resumed says that this is the first step that is told of an attempt that follows another one: training has gone back to a checkpoint, or to its
	// beginning, and what came of later steps does not count any more.
	Resumed bool
	// Repeated says that an earlier attempt has already reported a step of this number. That report does not count any more.
	Repeated bool
	Fetched  []*tensor.Tensor // valid until the callback returns
}

// Summary is what a finished run reports.
type Summary struct {
	Passes  int           // that ended in this call, and one more where the call ended within a pass
	Steps   uint64        // trained in this call
	Records int64         // read in this call, over all passes and trainers
	Stopped bool          // the callback returned ErrStop
	Elapsed time.Duration // of training
}
