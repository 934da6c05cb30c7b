package wire

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Bounds of the messages that travel in an rpc.Piece each time, in encoded bytes. What may rightly be sent is below them: a ledger of as many ranges
// and passes as a pserver keeps, the files of a dataset and the entries of a job as far as a coordinator could read them from the store again.
const (
	MaxLedger  = 256 << 20
	MaxDataset = 256 << 20
	MaxDetails = 512 << 20 // of a job, and of its queues: with all entries
)

// Ledger asks a pserver, which errors call where, for its ledger.
func Ledger(ctx context.Context, where string, c rpc.ParameterServerClient, m *rpc.LedgerRequest) (*rpc.LedgerResponse, error) {
	return ask(ctx, where, c.Ledger, m, &rpc.LedgerResponse{}, MaxLedger)
}

// Queues asks a coordinator how far its job is.
func Queues(ctx context.Context, c rpc.CoordinatorClient, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	return ask(ctx, "coordinator", c.Queues, m, &rpc.QueuesResponse{}, MaxDetails)
}

// Show asks a listener, which errors call where, for all that it knows of a job.
func Show(ctx context.Context, where string, c rpc.ListenerClient, m *rpc.JobRequest) (*rpc.JobDetails, error) {
	return ask(ctx, where, c.Show, m, &rpc.JobDetails{}, MaxDetails)
}

// ask makes a call whose answer comes in pieces.
func ask[Q any, A proto.Message](ctx context.Context, where string,
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
	if err == nil {
		sendErr := Send(stream, m)
		if _, err = stream.CloseAndRecv(); err == nil { // the answer says why pieces were not taken
			err = sendErr
		}
	}
	return FromStatus("coordinator", err)
}

// Send sends m in pieces.
func Send(to interface{ Send(*rpc.Piece) error }, m proto.Message) error {
	return SendPieces(m, func(piece []byte) error { return to.Send(&rpc.Piece{Piece: piece}) })
}

// Receive joins the pieces of m, which has at most limit bytes. Errors call their sender where.
func Receive(where string, from interface{ Recv() (*rpc.Piece, error) }, m proto.Message, limit int) error {
	err := ReceivePieces(m, limit, func() ([]byte, error) {
		p, err := from.Recv()
		return p.GetPiece(), err
	})
	if f, ok := err.(*fault.Fault); ok && f.Where == "" && errors.Is(f, fault.TooLarge) {
		return &fault.Fault{Kind: fault.TooLarge, Where: where, Got: fmt.Sprintf("%s of more than %d bytes", m.ProtoReflect().Descriptor().Name(), limit),
			Want: fmt.Sprintf("at most %d", limit)}
	}
	return err
}
