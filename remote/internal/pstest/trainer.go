package pstest

import (
	"context"
	"errors"
	"sync"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A Trainer speaks to one server, message by message, as the trainer of a rank.
type Trainer struct {
	Client     rpc.ParameterServerClient
	Rank       uint32
	Generation uint64 // 0: the first
	Carrier    dataplane.Carrier
}

// ID is the identity of a message of the trainer.
func (t Trainer) ID(round uint64) *rpc.Identity {
	own := Identity
	if t.Generation > 0 {
		own.Generation = id.Generation(t.Generation)
	}
	return own.Of(id.Rank(t.Rank), id.Round(round), 0)
}

// Send sends a contribution to a round and reports whether it was there before.
func (t Trainer) Send(ctx context.Context, round uint64, name string, value *tensor.Tensor) (duplicate bool, err error) {
	return t.SendAs(ctx, t.ID(round), name, value)
}

// SendAs is Send under any identity.
func (t Trainer) SendAs(ctx context.Context, id *rpc.Identity, name string, value *tensor.Tensor) (duplicate bool, err error) {
	stream, err := t.Client.SendVariable(ctx)
	if err != nil {
		return false, wire.FromStatus("pserver", err)
	}
	_ = wire.SendVariable(stream, &rpc.VariableChunk{Id: id, Name: name}, value, wire.Keep) // the answer says why it failed
	r, err := stream.CloseAndRecv()
	return r.GetDuplicate(), wire.FromStatus("pserver", err)
}

// Barrier declares a contribution of rows and variables.
func (t Trainer) Barrier(ctx context.Context, round uint64, rows int64, variables int) error {
	_, err := t.Client.SendBarrier(ctx, &rpc.BarrierRequest{Id: t.ID(round), Rows: rows, Variables: int32(variables)})
	return err
}

// Declare is Barrier with the records that the contribution was computed from.
func (t Trainer) Declare(ctx context.Context, round uint64, d *rpc.Declared, variables int) error {
	_, err := t.Client.SendBarrier(ctx, &rpc.BarrierRequest{Id: t.ID(round), Rows: d.Rows, Variables: int32(variables), Pass: d.Pass,
		Records: d.Records, Steps: d.Steps})
	return err
}

// Get receives a variable of a version into a new vector of length n, and returns it with the version that was sent.
func (t Trainer) Get(ctx context.Context, version uint64, name string, n int64) (*tensor.Tensor, uint64, error) {
	return t.GetAs(ctx, &rpc.GetRequest{Id: t.ID(version), Name: name}, n)
}

// GetAs is Get with any request.
func (t Trainer) GetAs(ctx context.Context, m *rpc.GetRequest, n int64) (*tensor.Tensor, uint64, error) {
	stream, err := t.Client.GetVariable(ctx, m)
	if err != nil {
		return nil, 0, wire.FromStatus("pserver", err)
	}
	into := Vector(n)
	header, err := wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
	return into, header.GetVersion(), wire.FromStatus("pserver", err)
}

// Complete says that the trainer contributes to nothing more.
func (t Trainer) Complete(ctx context.Context) error {
	_, err := t.Client.Complete(ctx, &rpc.CompleteRequest{Id: t.ID(0)})
	return err
}

// Parallel calls f for 0 to n-1 at the same time, waits for all, and returns their errors.
func Parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}
