package coordinator

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Config is what a Server is told about its job.
type Config struct {
	Identity       wire.Identity    // Fence is set by Run
	Program        *program.Program // of the trainers, to know which feeds are batched
	Trainers       int              // at least so many
	TrainersMax    int              // and at most; 0: as Trainers
	Sync           bool
	Standby        bool // each server has a standby
	MergeHosts     bool // sync: members of one host form a group, whose first contributes for all
	Fed            bool // fed by its user instead of reading its own data
	Passes         int
	Begin          *job.Progress   // where the job begins; nil: at its first step and the first batch
	MaxAhead       int             // sync: how many rounds may begin before the step of the first of them is acknowledged; 0: any number
	Evaluation     *job.Evaluation // sync, reading data: of held-back data while the job trains; nil: none
	Fetch          []string        // of every step, but for those of fed jobs
	RecordsPerTask int64
	MaxFailures    int              // of a task
	TaskTimeout    [2]time.Duration // least and most
	StartDeadline  time.Duration    // for members that are missing
	RejoinDeadline time.Duration    // for members that live to join the next generation
	Servers        []rpc.ParameterServerClient
	Save           *program.Program // tells which server has which piece of a persistable variable; nil: the user does not read variables
	// Constant returns a persistable variable that no server holds; nil where the startup program makes it. It may be nil, if that makes all.
	Constant       func(name string) (*tensor.Tensor, error)
	Constants      []string            // names of all persistable variables that no server holds
	Follow         map[string][]string // globs of the datasets that grow while the job runs, by name
	FollowEvery    time.Duration       // between two looks at them; 0: 1s
	TellEvery      time.Duration       // how long a watcher may wait for a step, so that several are sent together; 0: each is sent at once
	LedgerDeadline time.Duration       // of a question about the ledger outside of a change of members; 0: 10s
	Checkpoints    Checkpoints
	Backup         int                                                // sync: contributions that a round may lack
	Datasets       []*rpc.Dataset                                     // that the job has read before, in an earlier attempt or before a checkpoint: they must be the same, or grow
	Placement      *job.Placement                                     // that the job has, with the programs of its trainers; nil: it never changes
	Placed         *state.Placed                                      // how it was changed to, as LastPlaced returns it; nil: it is that of the start
	Offer          func(*job.Placement)                               // takes the placement that the job may change to, before it does; needed with Peer
	Peer           func(index int) (rpc.ParameterServerClient, error) // the client of a server of any placement; it does not wait. nil: the placement never changes
	Awaits         uint64                                             // history that the job is about to begin with a checkpoint, so that no generation begins before; 0: none
	Back           *state.Back                                        // where the history begins that the durable entries belong to, as LastBack returns it; nil: with Begin
	// Live returns the members of the job that live now, with their incarnations. nil: whoever joins lives.
	Live func(context.Context) (map[cluster.Member]id.Incarnation, error)
	// Merge makes one list of values of what several trainers fetched in one step.
	Merge func(reports []*rpc.TrainerStep) ([]*job.Value, error)
	Log   *slog.Logger
	Times *timing.Recorder // notes what is handed out in rounds that the listener traces; may be nil
}

// Lead is the lock that a coordinator holds.
type Lead struct {
	Fence id.Fence
	State cluster.State
}

// goesBack reports whether the job can go back to a checkpoint while its processes stay. A fed job is fed again.
func (c Config) goesBack() bool { return c.Checkpoints.Store != "" && !c.Fed }

// dividesBatches reports whether trainers, or devices of a trainer, have parts of a batch that is fed.
func (c Config) dividesBatches() bool {
	return c.Sync || slices.ContainsFunc(c.Program.Global().Ops, func(op *program.Op) bool { return op.Type == "merge_devices" })
}

// late reports whether a message belongs to an earlier history.
func (c Config) late(g uint64) bool { return g <= c.Back.GetGeneration() }

// start is where the data and the rounds begin.
func (c Config) start() queue.Position {
	return queue.Position{Round: id.Round(c.Begin.GetSteps()), Pass: c.Begin.GetPass(), Batch: c.Begin.GetBatch()}
}

// trainedOf is what a position in the data leaves out of its pass.
func trainedOf(p *job.Progress) ranges.Set {
	s, _ := ranges.OfText(p.GetTrained(), math.MaxInt64) // of a Progress that is sound
	return s
}

// maxPlace bounds the name of a host and an address, in bytes: a coordinator repeats them to others.
const maxPlace = 256

// placeOf returns where a trainer is that joins, as far as the job has groups. A trainer that does not tell is in none.
func (c Config) placeOf(r *rpc.JoinRequest) generation.Place {
	if !c.MergeHosts || !c.Sync || r.Host == "" || r.Address == "" || max(len(r.Host), len(r.Address)) > maxPlace {
		return generation.Place{}
	}
	return generation.Place{Host: r.Host, Address: r.Address}
}

func (c Config) generationPolicy() generation.Policy {
	return generation.Policy{Sync: c.Sync, Start: c.start().Round, History: c.Back.GetHistory(), GoesBack: c.goesBack(), Servers: len(c.Servers), Standby: c.Standby, Min: c.Trainers, Max: max(c.Trainers, c.TrainersMax),
		RejoinDeadline: c.RejoinDeadline, StartDeadline: c.StartDeadline}
}

func (c Config) queuePolicy(epoch time.Time) queue.Policy {
	p := queue.Policy{Sync: c.Sync, Backup: c.Backup > 0, Start: c.start(), Trained: trainedOf(c.Begin), Passes: max(c.Passes, 1), Reading: readingOf(c.Program), RecordsPerTask: c.RecordsPerTask,
		Trainers: c.Trainers, MaxFailures: c.MaxFailures, MinTimeout: c.TaskTimeout[0], MaxTimeout: c.TaskTimeout[1], Epoch: epoch}
	for name := range c.Follow {
		if before := c.before(name); before != nil && !c.Sync && p.Start.Batch > 0 {
			p = p.ByRecords(recordsOf(before.Files))
		}
	}
	return p
}

// before returns which files of a dataset the job has read before; nil: that is not known.
func (c Config) before(name string) *rpc.Dataset {
	for _, d := range c.Datasets {
		if d.GetName() == name {
			return d
		}
	}
	return nil
}

// recordsOf is how many records files have. Numbers that no files have count as none: a queue refuses such files.
func recordsOf(files []*rpc.DataFile) (n int64) {
	for _, f := range files {
		if records := f.GetRecords(); records > 0 && records < math.MaxInt64-n {
			n += records
		}
	}
	return n
}

// readingOf says how a program makes batches of records. It is zero for a program that reads no data.
func readingOf(p *program.Program) queue.Reading {
	if p == nil {
		return queue.Reading{}
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return queue.Reading{}
	}
	r, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return queue.Reading{}
	}
	return queue.Reading{Rows: int64(r.Batch), DropLast: r.DropLast, ShuffleBuffer: r.ShuffleBuffer, ShuffleGroup: r.ShuffleGroup, ShuffleSeed: uint64(r.ShuffleSeed)}
}
