package ops

import (
	"context"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Env is what a kernel may reach outside of its tensors. The executor owns it; what a run does not offer is nil, and
// Bind of an op that needs it fails with a clear error.
type Env struct {
	Step    *Step   // never nil
	Comm    Comm    // trainers
	Server  Server  // pservers
	Storage Storage // save and load
	Workers int     // goroutines that may share the loops of a kernel; less than 1 counts as 1

	// Blocks runs single blocks of the program over the scope at hand. The executor sets it for the programs of pservers,
	// where listen_and_serv hands it to Server.
	Blocks BlockRunner
}

// Step says which step of which trainer is running. The executor updates it before each step; kernels that
// depend on chance key their generator by it, so that a batch split over trainers draws what the whole batch would have drawn.
type Step struct {
	Round     uint64 // step or round number from 0
	Lane      uint64 // 0 where all trainers share one batch per round; otherwise the rank, so that one trainer alone draws what one machine draws
	RowOffset int64  // where this trainer's rows begin in the batch of the round
	Rows      int64  // rows of this trainer
}

// A Message names one variable on the wire of the trainer's side: its local tensor, its name at the server, and which server.
type Message struct {
	Name   string // name at the server, such as "fc_0.w_0@GRAD.block1"
	Server int    // index of the pserver
	Merge  Merge  // how contributions become one
	Value  *tensor.Tensor
}

// Comm is the trainer's side of the wire. Send and Recv may return before the bytes have moved; the barriers
// wait. Every call observes the deadlines of the job and returns a *fault.Fault that names the peer.
type Comm interface {
	// Send starts sending m as this trainer's contribution to the current round. m.Value must stay unwritten until
	// SendBarrier returned (in async mode: until SendBarrier or Recv returned, which both wait for every Send).
	Send(ctx context.Context, m Message) error
	// SendBarrier waits until every Send is acknowledged, then tells every server that this trainer's contribution to the round is
	// complete.
	SendBarrier(ctx context.Context) error
	// Recv starts receiving a variable into m.Value, which is complete after FetchBarrier returned.
	Recv(ctx context.Context, m Message) error
	// FetchBarrier waits until every Recv is complete.
	FetchBarrier(ctx context.Context) error
}

// Server runs listen_and_serv: it serves the program's variables until the job is done.
type Server interface {
	// Serve is called with the listen_and_serv op, the program it stands in, and a runner that executes one block of it.
	Serve(ctx context.Context, op *program.Op, blocks BlockRunner) error
	// Exchange returns the values that all servers published under name in the current round, in server order. It blocks until all have.
	Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error
}

// BlockRunner executes single blocks of a program over one scope.
type BlockRunner interface {
	// RunBlock runs a block once. Different blocks may run at the same time when they write different variables.
	RunBlock(ctx context.Context, block program.BlockIndex, step Step) error
	// Variable returns the live value of a persistable variable.
	Variable(name string) (*tensor.Tensor, bool)
}

// Storage gives save and load ops their files. Names come from the program and are checked against the directory that the run was given.
// A file holds one LoDTensor stream per tensor, one after another and nothing else: one for save and load, any number for
// save_combine and load_combine.
type Storage interface {
	// Save writes the tensors, in order, to the file of that name. Without overwrite a file that exists is an error and stays
	// as it is.
	Save(name string, tensors []*tensor.Tensor, overwrite bool) error
	// Load fills the tensors, in order, from the file of that name. A stream of another dtype or dims, too few streams and bytes after the
	// last one are errors.
	Load(name string, into []*tensor.Tensor) error
}
