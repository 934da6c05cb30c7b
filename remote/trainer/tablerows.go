package trainer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

var _ ops.RowFetcher = (*Comm)(nil)

// Limits of one request for rows: an answer fits into a few megabytes, so that others go on beside it.
const (
	rowsAtOnce     = 1 << 16
	rowBytesAtOnce = 8 << 20
)

// FetchRows brings rows of tables that only servers hold, from all servers at once.
func (c *Comm) FetchRows(ctx context.Context, from []ops.RowsMessage) error {
	c.init()
	if err := c.ledger.await(); err != nil { // async: what this trainer has contributed is applied or in a queue
		return err
	}
	c.Times.Aside(timing.Receive)
	defer c.Times.Back()
	asks, err := requestsOf(c.ahead.take(c.round(), from), len(c.Servers))
	if err != nil {
		return err
	}
	round := c.round()
	return forEach(ctx, len(asks), c.slots, func(ctx context.Context, i int) error { return fetchRows(ctx, c, round, asks[i]) })
}

// requestsOf divides messages into requests that are not too large.
func requestsOf(from []ops.RowsMessage, servers int) (asks []ops.RowsMessage, err error) {
	for _, m := range from {
		if err := checkServer(m.Server, servers); err != nil {
			return nil, err
		}
		rows := len(m.Rows) + len(m.Keys) // one of them is empty
		if rows == 0 || len(m.Into)%rows != 0 {
			return nil, fault.E(fault.Internal, fault.Var(m.Name), fault.Gotf("%d elements for %d rows", len(m.Into), rows))
		}
		width := len(m.Into) / rows
		most := max(1, min(rowsAtOnce, rowBytesAtOnce/4/max(1, width)))
		for from := 0; from < rows; from += most {
			to := min(from+most, rows)
			ask := ops.RowsMessage{Name: m.Name, Server: m.Server, Into: m.Into[from*width : to*width]}
			if m.Keys != nil {
				ask.Keys = m.Keys[from:to]
			} else {
				ask.Rows = m.Rows[from:to]
			}
			asks = append(asks, ask)
		}
	}
	return asks, nil
}

// fetchRows makes one request for rows as they are before a round, and its retries.
func fetchRows(ctx context.Context, c *Comm, round id.Round, m ops.RowsMessage) error {
	request, n := &rpc.RowsRequest{Name: m.Name, Rows: make([]uint32, len(m.Rows)), Keys: m.Keys}, int64(len(m.Rows)+len(m.Keys))
	for i, row := range m.Rows {
		request.Rows[i] = uint32(row)
	}
	into, err := tensor.FromSlice(m.Into, n, int64(len(m.Into))/n)
	if err != nil {
		return err
	}
	identity := c.identity
	return c.call(ctx, m.Server, fmt.Sprintf("rows of %s for round %d", m.Name, round),
		func(ctx context.Context, from rpc.ParameterServerClient, retry id.Retry) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			request.Id = identity.Of(c.Rank, round, retry)
			stream, err := from.GetRows(ctx, request, grpc.WaitForReady(false))
			if err != nil {
				return err
			}
			return receiveRows(stream, into)
		})
}

// halvesRooms have rows of tables that are stored as bfloat16, while they arrive.
var halvesRooms = sync.Pool{New: func() any { return new([]uint16) }}

// receiveRows receives rows into a float32 tensor, also those of a table that is stored as bfloat16.
func receiveRows(stream wire.Receiver, into *tensor.Tensor) error {
	room := halvesRooms.Get().(*[]uint16)
	defer halvesRooms.Put(room)
	var halves *tensor.Tensor // nil if rows come as float32
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (t *tensor.Tensor, err error) {
		if tensor.DType(h.Dtype) != tensor.BFloat16 {
			return into, nil
		}
		*room = slices.Grow((*room)[:0], into.Len())[:into.Len()]
		halves, err = tensor.FromHalves(tensor.BFloat16, *room, into.Dims()...)
		return halves, err
	})
	if err == nil && halves != nil {
		kernel.FromBFloat16(into.Float32s(), halves.Halves())
	}
	return err
}
