package trainer

import (
	"context"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
)

// watched tells of calls to a server, with their round where it is known.
type watched struct {
	rpc.ParameterServerClient
	tell func(when string, round uint64)
}

func (w *watched) SendVariable(ctx context.Context,
	opts ...grpc.CallOption) (grpc.ClientStreamingClient[rpc.VariableChunk, rpc.SendResponse], error) {
	w.tell("before send", 0)
	s, err := w.ParameterServerClient.SendVariable(ctx, opts...)
	return &watchedSend{s, w.tell}, err
}

type watchedSend struct {
	grpc.ClientStreamingClient[rpc.VariableChunk, rpc.SendResponse]
	tell func(when string, round uint64)
}

func (s *watchedSend) CloseAndRecv() (*rpc.SendResponse, error) {
	s.tell("in send", 0)
	defer s.tell("after send", 0)
	return s.ClientStreamingClient.CloseAndRecv()
}

func (w *watched) SendBarrier(ctx context.Context, m *rpc.BarrierRequest, opts ...grpc.CallOption) (*rpc.BarrierResponse, error) {
	w.tell("before barrier", m.Id.Round)
	defer w.tell("after barrier", m.Id.Round)
	return w.ParameterServerClient.SendBarrier(ctx, m, opts...)
}

func (w *watched) GetVariable(ctx context.Context, m *rpc.GetRequest,
	opts ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.VariableChunk], error) {
	w.tell("before recv", m.Id.Round)
	defer w.tell("in recv", m.Id.Round)
	return w.ParameterServerClient.GetVariable(ctx, m, opts...)
}
