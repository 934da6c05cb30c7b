package listen

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// RunStep passes one fed step on to the job's coordinator, and its answer back, piece by piece.
func (s *Server) RunStep(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return fault.E(fault.Corrupt, fault.Got("a stream without a message"))
	}
	if err != nil {
		return err
	}
	j, err := s.Manager.Job(first.GetId().GetJob())
	if err != nil {
		return err
	}
	client, err := j.session(stream.Context())
	if err != nil {
		return err
	}
	feed, err := client.Feed(stream.Context())
	if err != nil {
		return j.orFailure(stream.Context(), wire.FromStatus("coordinator", err))
	}
	if err := forward(stream, feed, &rpc.Piece{Id: j.identity(), Piece: first.Piece}); err != nil {
		return err
	}
	for {
		piece, err := feed.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.orFailure(stream.Context(), wire.FromStatus("coordinator", err))
		}
		if err := stream.Send(piece); err != nil {
			return err
		}
	}
}

// forward passes a request on, from its first piece. It fails when no more can be received; that no more can be sent the answer will explain.
func forward(from grpc.BidiStreamingServer[rpc.Piece, rpc.Piece], to grpc.BidiStreamingClient[rpc.Piece, rpc.Piece], piece *rpc.Piece) error {
	for {
		if err := to.Send(piece); err != nil {
			return nil
		}
		next, err := from.Recv()
		if errors.Is(err, io.EOF) {
			_ = to.CloseSend()
			return nil
		}
		if err != nil {
			return err
		}
		piece = &rpc.Piece{Piece: next.Piece}
	}
}
