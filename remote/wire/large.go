package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// Bounds of the messages that are sent in pieces, in encoded bytes. They are larger than any legal message: a ledger has as many ranges and passes as
// a pserver keeps; the files of a dataset, and the entries of a job, are as many as a coordinator can read from the store again.
const (
	MaxLedger    = 256 << 20
	MaxDataset   = 256 << 20
	MaxDetails   = 512 << 20 // of a job, and of its queues: with all entries
	MaxPlacement = 256 << 20 // programs of a placement
	MaxStep      = 1 << 30   // what is fed to one step, and what it fetches; the steps of one report together, too
)

// Ledger asks a pserver for its ledger. where names the pserver in errors.
func Ledger(ctx context.Context, where string, c rpc.ParameterServerClient, m *rpc.LedgerRequest) (*rpc.LedgerResponse, error) {
	return callForPieces(ctx, where, c.Ledger, m, &rpc.LedgerResponse{}, MaxLedger)
}

// Queues asks a coordinator for the progress of its job.
func Queues(ctx context.Context, c rpc.CoordinatorClient, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	return callForPieces(ctx, "coordinator", c.Queues, m, &rpc.QueuesResponse{}, MaxDetails)
}

// Placement asks a coordinator for the programs of the placement that a generation has.
func Placement(ctx context.Context, c rpc.CoordinatorClient, m *rpc.PlacementRequest) (*job.Placement, error) {
	return callForPieces(ctx, "coordinator", c.Placement, m, &job.Placement{}, MaxPlacement)
}

// Show asks a listener for all that it knows of a job. where names the listener in errors.
func Show(ctx context.Context, where string, c rpc.ListenerClient, m *rpc.JobRequest) (*rpc.JobDetails, error) {
	return callForPieces(ctx, where, c.Show, m, &rpc.JobDetails{}, MaxDetails)
}

// callForPieces makes a call whose answer comes in pieces.
func callForPieces[Q any, A proto.Message](ctx context.Context, where string,
	call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.Piece], error), m *Q, answer A, limit int) (A, error) {
	var none A
	ctx, cancel := context.WithCancel(ctx) // ends an answer that is too large
	defer cancel()
	stream, err := call(ctx, m)
	if err == nil {
		err = Receive(where, stream, answer, limit)
	}
	if err != nil {
		return none, FromStatus(where, err)
	}
	return answer, nil
}

// ReportDataset tells a coordinator which files a dataset has. With grpc.WaitForReady(false) it fails when there is no coordinator.
func ReportDataset(ctx context.Context, c rpc.CoordinatorClient, m *rpc.ReportDatasetRequest, options ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.ReportDataset(ctx, options...)
	return deliver(stream, m.Id, m, err)
}

// ReportSteps tells a coordinator what a trainer fetched. With grpc.WaitForReady(false) it fails when there is no coordinator.
func ReportSteps(ctx context.Context, c rpc.CoordinatorClient, m *rpc.TrainerSteps, options ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.ReportSteps(ctx, options...)
	return deliver(stream, m.Id, m, err)
}

// Evaluate tells a coordinator the outcome of a part of an evaluation, and returns the next one. With grpc.WaitForReady(false) it fails when there is no coordinator.
func Evaluate(ctx context.Context, c rpc.CoordinatorClient, id *rpc.Identity, m *rpc.EvaluateRequest, options ...grpc.CallOption) (*rpc.EvaluateResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Evaluate(ctx, options...)
	return deliverFor(stream, id, m, err)
}

// deliver sends m to a coordinator and waits for its answer. err is the error of the call that opened the stream.
func deliver[A any](stream grpc.ClientStreamingClient[rpc.Piece, A], id *rpc.Identity, m proto.Message, err error) error {
	_, err = deliverFor(stream, id, m, err)
	return err
}

// deliverFor is deliver with what the coordinator answers.
func deliverFor[A any](stream grpc.ClientStreamingClient[rpc.Piece, A], id *rpc.Identity, m proto.Message, err error) (answer *A, _ error) {
	if err == nil {
		sendErr := SendAs(stream, id, m)
		if answer, err = stream.CloseAndRecv(); err == nil { // the answer says why pieces were not taken
			err = sendErr
		}
	}
	return answer, FromStatus("coordinator", err)
}

// RunStep runs one fed step, or gives one up, and returns the answer. call is the method of a listener or of a coordinator; where names it in errors. Errors of
// the transport are returned unchanged.
func RunStep(ctx context.Context, where string,
	call func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[rpc.Piece, rpc.Piece], error),
	id *rpc.Identity, run *rpc.StepRun) (*rpc.StepDone, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := call(ctx)
	if err != nil {
		return nil, err
	}
	if err = SendAs(stream, id, run); err == nil {
		err = stream.CloseSend()
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the answer says why pieces were not taken
		return nil, err
	}
	done := &rpc.StepDone{}
	err = Receive(where, stream, done, MaxStep)
	return done, err
}

// Send sends m, an answer, in pieces.
func Send(to interface{ Send(*rpc.Piece) error }, m proto.Message) error { return SendAs(to, nil, m) }

// SendAs sends m, a request, in pieces; the first piece says who asks.
func SendAs(to interface{ Send(*rpc.Piece) error }, id *rpc.Identity, m proto.Message) error {
	return SendPieces(m, func(piece []byte) error {
		p := &rpc.Piece{Piece: piece, Id: id}
		id = nil
		return to.Send(p)
	})
}

// Receive joins the pieces of m, an answer of at most limit bytes. where names the sender in errors.
func Receive(where string, from interface{ Recv() (*rpc.Piece, error) }, m proto.Message, limit int) error {
	return ReceiveFrom(where, from, m, limit, func(*rpc.Identity) error { return nil })
}

// ReceiveFrom joins the pieces of m, a request, like Receive. admit gets the identity of the first piece, nil when it has none. When admit fails, its
// error is returned and nothing more is received.
func ReceiveFrom(where string, from interface{ Recv() (*rpc.Piece, error) }, m proto.Message, limit int, admit func(*rpc.Identity) error) error {
	admitted := false
	err := ReceivePieces(m, limit, func() ([]byte, error) {
		p, err := from.Recv()
		if err == nil && !admitted {
			admitted, err = true, admit(p.Id)
		}
		return p.GetPiece(), err
	})
	if f, ok := err.(*fault.Fault); ok && f.Where == "" && errors.Is(f, fault.TooLarge) {
		return fault.E(fault.TooLarge, fault.At(where), fault.Gotf("%s of more than %d bytes", m.ProtoReflect().Descriptor().Name(), limit),
			fault.Wantf("at most %d", limit))
	}
	return err
}

// SendPieces cuts an encoded message into pieces of ChunkBytes and sends each; there is at least one. It fails with fault.InvalidArgument, and sends
// nothing, when the message cannot be encoded because a string in it is not valid UTF-8.
func SendPieces(m proto.Message, send func(piece []byte) error) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, "message", err)
	}
	for {
		n := min(len(b), ChunkBytes)
		if err := send(b[:n:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

// smallPieces is how many bytes of small pieces are kept together as they arrive.
const smallPieces = 64 << 10

// ReceivePieces joins pieces until io.EOF and decodes them into m. It refuses a stream as soon as it has more than limit bytes, and a stream without
// a piece. While pieces arrive they take about their own bytes, however small they are; when the last one is there, as much again for a moment, so that they lie behind each
// other.
func ReceivePieces(m proto.Message, limit int, recv func() ([]byte, error)) error {
	var pieces [][]byte
	size, own := 0, false // own: nobody else has the memory of the last piece
	for {
		piece, err := recv()
		if errors.Is(err, io.EOF) && len(pieces) > 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			return fault.E(fault.Corrupt, fault.Got("a stream without a message"))
		}
		if err != nil {
			return err
		}
		if len(piece) > limit-size {
			return fault.E(fault.TooLarge, fault.Got("a message of more than "+fmt.Sprint(limit)+" bytes"))
		}
		size += len(piece)
		last := len(pieces) - 1
		switch {
		case last < 0 || len(pieces[last])+len(piece) > smallPieces:
			pieces, own = append(pieces, piece), false
		case own:
			pieces[last] = append(pieces[last], piece...)
		default:
			pieces[last], own = slices.Concat(pieces[last], piece), true
		}
	}
	b := pieces[0]
	if len(pieces) > 1 {
		b = make([]byte, 0, size)
		for i, piece := range pieces {
			b, pieces[i] = append(b, piece...), nil
		}
	}
	return fault.Wrap(fault.Corrupt, "message", proto.Unmarshal(b, m))
}
