package listen

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// RunStep passes one fed step on to the job's coordinator, and its answer back.
func (s *Server) RunStep(stream grpc.BidiStreamingServer[rpc.StepChunk, rpc.StepChunk]) error {
	run := &rpc.StepRun{}
	err := wire.ReceivePieces(run, maxSpec, func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetPiece(), err
	})
	if err != nil {
		return err
	}
	j, err := s.Manager.Job(run.Job)
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
	// A send fails when the coordinator has ended the call; Recv then says why.
	if err := wire.SendPieces(run, func(piece []byte) error { return feed.Send(&rpc.StepChunk{Piece: piece}) }); err == nil {
		_ = feed.CloseSend()
	}
	for {
		chunk, err := feed.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.orFailure(stream.Context(), wire.FromStatus("coordinator", err))
		}
		if err := stream.Send(chunk); err != nil {
			return err
		}
	}
}
