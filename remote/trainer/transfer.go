package trainer

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// send makes one attempt to send a variable. It returns only when the call has ended, so that t may be written afterwards.
func send(ctx context.Context, to rpc.ParameterServerClient, header *rpc.VariableChunk, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := to.SendVariable(ctx, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	if err := wire.SendVariable(stream, header, t); err != nil {
		if _, answer := stream.CloseAndRecv(); answer != nil {
			return answer // the server ended the call and says why
		}
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// receive makes one attempt to receive a variable. t is complete only if it succeeds.
func receive(ctx context.Context, from rpc.ParameterServerClient, request *rpc.GetRequest, t *tensor.Tensor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := from.GetVariable(ctx, request, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return t, nil })
	return err
}
