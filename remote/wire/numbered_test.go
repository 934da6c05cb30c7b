package wire_test

import (
	"context"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// answering returns the address of a server whose answers tell its number by the round.
func answering(t *testing.T, number uint64) string {
	_, address := start(t, &numbered{ask: func() uint64 { return number }})
	return address
}

// numbered is a server that answers with a number.
type numbered struct {
	rpc.UnimplementedParameterServerServer
	ask func() uint64
}

func (s *numbered) Status(context.Context, *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	return &rpc.StatusResponse{Round: s.ask()}, nil
}

func ask(ctx context.Context, client rpc.ParameterServerClient) (uint64, error) {
	r, err := client.Status(ctx, &rpc.StatusRequest{})
	return r.GetRound(), err
}

// askAgain retries what the end of an earlier address has cut.
func askAgain(t *testing.T, client rpc.ParameterServerClient) (n uint64, err error) {
	ctx := bounded(t)
	err = wire.Retry(ctx, func(uint32) (err error) {
		n, err = ask(ctx, client)
		return err
	})
	return n, err
}
