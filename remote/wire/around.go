package wire

import (
	"context"

	"google.golang.org/grpc"
)

// Around are options of NewServer: around is called for each call, with its full method, and calls handle with the context that the handler gets. What it returns is
// the answer: an error takes the place of what the handler has returned. If it does not call handle, nothing is received.
func Around(around func(ctx context.Context, method string, handle func(context.Context) error) error) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
			err = around(ctx, info.FullMethod, func(ctx context.Context) (err error) {
				answer, err = handler(ctx, req)
				return err
			})
			if err != nil {
				return nil, err
			}
			return answer, nil
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return around(stream.Context(), info.FullMethod, func(ctx context.Context) error { return handler(srv, inContext{stream, ctx}) })
		}),
	}
}

// inContext is a stream with another context.
type inContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s inContext) Context() context.Context { return s.ctx }
