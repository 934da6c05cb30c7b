package ops

import (
	"context"
	"log/slog"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Env is what a kernel may reach besides its tensors. The executor owns it. What a run does not offer is nil, and then Bind of an op that needs it
// returns an error.
type Env struct {
	Step    *Step   // never nil
	Comm    Comm    // trainers
	Server  Server  // pservers
	Storage Storage // save and load
	// Log gets what the program prints, at LevelPrint.
	Log *slog.Logger
	// Rank returns the rank table that orders the rows of a variable in a block that an op runs; see Binding.Rank. Nil outside of such blocks.
	Rank    func(variable string) *RankTable
	Workers int // goroutines that may share the loops of a kernel; less than 1 counts as 1

	// Blocks runs single blocks of the program over the scope of the run. The executor sets it for pserver programs, where listen_and_serv hands it
	// to Server.
	Blocks BlockRunner
	// Rows is told which rows of variables change, by ops whose Def says so (TellsRows). The executor sets it for pserver programs.
	Rows RowWatcher
}

// A RowWatcher keeps rows of variables as they are before ops change them.
type RowWatcher interface {
	// Changing returns what an op calls in this run for each row of a variable before it changes it, or for each row that it finds for a sparse gradient by which
	// an update will change rows. Nil: nobody keeps any now.
	Changing(variable string) func(row int)
}

// LevelPrint is the level of what a program prints: above what an executor tells of itself, below warnings.
const LevelPrint = slog.LevelInfo + 1

// A Step says which step of which trainer is running. The executor updates it before each step. Random ops key their generator by it, so that the
// parts of a batch on several trainers draw the same numbers as the whole batch on one.
type Step struct {
	Round     uint64 // number of the step or round, from 0
	Lane      uint64 // 0 if all trainers share one batch per round (sync mode), else the rank of the trainer
	RowOffset int64  // first row of this trainer in the batch of the round
	Weight    int64  // what Rows rows weigh in the mean that the loss is, where that is another number; see WeightOf. Else 0
	Rows      int64  // rows of this trainer
	Part      bool   // Rows are a part of the batch: others compute the rest of it
	Batch     int64  // rows of the batch, where Rows are a part of it
	// Void says, of a part, that the weights in it add up to 0: the mean that it has computed is no number, and counts for nothing beside other parts. The
	// run says so, with Weight.
	Void      bool
	Iteration uint64 // tells runs of a block within the step apart; 0 outside of blocks that ops run
	Hour      int64  // of the round: see HourOf
}

// A Message names one variable that a trainer sends or receives.
type Message struct {
	Name   string // name at the server, such as "fc_0.w_0@GRAD.block1"
	Server int    // index of the pserver
	Merge  Merge  // how the contributions of several trainers merge
	Rows   bool   // Value holds rows of a table (compress.SparseForm): only those in use need to travel
	Value  *tensor.Tensor
}

// Comm is the trainer's side of the wire. Send and Recv may return before the bytes have moved. The barriers wait for them. Every call keeps the
// deadlines of the job and returns a *fault.Fault that names the peer.
type Comm interface {
	// Send starts sending m as the trainer's contribution to the current round. The caller must not write to m.Value until FetchBarrier has
	// returned, because it may be sent again; in async mode, until SendBarrier or Recv has returned, which both wait for every Send.
	Send(ctx context.Context, m Message) error
	// SendBarrier waits until the servers have acknowledged every Send. Then it tells every server that the contribution of the trainer is
	// complete.
	SendBarrier(ctx context.Context) error
	// Recv starts receiving a variable into m.Value, which is complete when FetchBarrier has returned. m.Value may be rows of a parameter: if the
	// step fails before, the parameter has some new elements and some old ones.
	Recv(ctx context.Context, m Message) error
	// FetchBarrier waits until every Recv is complete.
	FetchBarrier(ctx context.Context) error
}

// A RowsMessage asks a server for rows of a table.
type RowsMessage struct {
	Name   string    // of the table, or of the slice of one, at the server
	Server int       // index of the pserver
	Rows   []int32   // numbers of the rows, ascending
	Keys   []int64   // of a table that grows, in place of Rows: mixed keys, ascending as numbers without sign
	Into   []float32 // where the rows go, one after another; its length divided by that of Rows or Keys is the width of a row
}

// A RowFetcher is a Comm that brings single rows of tables which no trainer holds. FetchRows returns when all rows are there, as they are after the rounds
// before the step; in async mode, as they are.
type RowFetcher interface {
	FetchRows(ctx context.Context, from []RowsMessage) error
}

// A DeviceMessage names a variable that each device of a trainer has computed from its part of the trainer's rows.
type DeviceMessage struct {
	Name  string // in the program
	Merge Merge
	State bool           // a persistable variable that the forward pass has updated; else a gradient
	Value *tensor.Tensor // of the first device
	Into  *tensor.Tensor // where the merge goes; it shares no memory with Value
}

// A DeviceMerger is the Comm of a trainer that may have several devices. MergeDevices waits until all of them have computed their parts, and merges what
// they have computed.
type DeviceMerger interface {
	// step is that of the plan that runs. It gets Weight and Void of all devices together.
	MergeDevices(ctx context.Context, step *Step, all []DeviceMessage) error
}

// MaxTotals is how many numbers trainers share in a step, and MaxTotalsPlaces at how many places of a program.
const (
	MaxTotals       = 1 << 12
	MaxTotalsPlaces = 64
)

// Totals are what one trainer, or a device of it, has made of its rows for the sums and means over the batch that trainers share at once. See ShareTotals.
type Totals struct {
	Rows   int64     // of the trainer or device, > 0
	Over   []int64   // by total: how many elements of its rows it reduces
	Values []float64 // of all totals, one after the other
}

// A TotalsSharer is the Comm of a trainer. ShareTotals hands the totals of the trainer, or of one of its devices, to others, and returns those of all trainers that have
// rows of the batch, in rank order. It waits until all have theirs. place tells the calls of a step apart: each device makes them in the order 0, 1, 2, ... A step that
// computes its forward pass again gets the same answers. Nobody reads own after the return, and nobody changes the answer. join makes one of the totals of all devices of
// a trainer, in their order; it is called before the return.
type TotalsSharer interface {
	ShareTotals(ctx context.Context, place int, own Totals, join func([]Totals) (Totals, error)) (all []Totals, err error)
}

// Server runs listen_and_serv: it serves the variables of a program until the job is done.
type Server interface {
	// Serve serves the program of op, the listen_and_serv op. blocks runs its blocks.
	Serve(ctx context.Context, op *program.Op, blocks BlockRunner) error
	// Exchange publishes own under name and waits until every server has done so in the current round. It fills all with the values, in server
	// order.
	Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error
}

// A BlockRunner runs single blocks of a program over one scope.
type BlockRunner interface {
	// RunBlock runs a block once. Blocks that write different variables may run at the same time.
	RunBlock(ctx context.Context, block program.BlockIndex, step Step) error
	// Variable returns the live value of a persistable variable.
	Variable(name string) (*tensor.Tensor, bool)
}

// Storage gives files to save and load ops. It checks file names, which come from the program, against the directory of the run. A file holds one
// LoDTensor stream per tensor and nothing else: one stream for save and load, any number for save_combine and load_combine. What SaveShort writes takes the place
// of a stream.
type Storage interface {
	// Save writes the tensors in order to the file. If the file exists and overwrite is false, Save leaves the file alone and returns an error.
	Save(name string, tensors []*tensor.Tensor, overwrite bool) error
	// SaveShort writes a tensor most of whose elements are zeros, to a file that Load reads: in short form (tensor.WriteShort), not as a stream.
	SaveShort(name string, t *tensor.Tensor, overwrite bool) error
	// Load fills the tensors in order from the file. It is an error if a stream has another dtype or other dims, if streams are missing, or if
	// bytes follow the last stream.
	Load(name string, into []*tensor.Tensor) error
}
