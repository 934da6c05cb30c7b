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

// Limits of one request for rows, for all of its tables together: an answer fits into a few megabytes, so that others go on beside it.
const (
	tablesAtOnce   = 1 << 12
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

// rowsAsk is what one request asks a server for: rows of one table or more.
type rowsAsk struct {
	server   int
	messages []ops.RowsMessage
	rows     int // of all messages
	elements int
}

// requestsOf puts what is wanted of a server into as few requests as are not too large.
func requestsOf(from []ops.RowsMessage, servers int) (asks []*rowsAsk, err error) {
	open := make([]*rowsAsk, servers) // the request that takes more, by server
	for _, m := range from {
		if err := checkServer(m.Server, servers); err != nil {
			return nil, err
		}
		rows := len(m.Rows) + len(m.Keys) // one of them is empty
		if rows == 0 || len(m.Into)%rows != 0 {
			return nil, fault.E(fault.Internal, fault.Var(m.Name), fault.Gotf("%d elements for %d rows", len(m.Into), rows))
		}
		width := len(m.Into) / rows
		for at := 0; at < rows; {
			ask := open[m.Server]
			n := 0
			if ask != nil && len(ask.messages) < tablesAtOnce {
				n = min(rows-at, rowsAtOnce-ask.rows, (rowBytesAtOnce/4-ask.elements)/max(1, width))
			}
			if n < 1 {
				ask = &rowsAsk{server: m.Server}
				asks, open[m.Server] = append(asks, ask), ask
				n = min(rows-at, max(1, min(rowsAtOnce, rowBytesAtOnce/4/max(1, width))))
			}
			ask.add(part(m, at, at+n, width))
			at += n
		}
	}
	return asks, nil
}

// part returns some of the rows of a message, each width long.
func part(m ops.RowsMessage, from, to, width int) ops.RowsMessage {
	p := ops.RowsMessage{Name: m.Name, Server: m.Server, Into: m.Into[from*width : to*width]}
	if m.Keys != nil {
		p.Keys = m.Keys[from:to]
	} else {
		p.Rows = m.Rows[from:to]
	}
	return p
}

func (a *rowsAsk) add(m ops.RowsMessage) {
	a.messages = append(a.messages, m)
	a.rows += len(m.Rows) + len(m.Keys)
	a.elements += len(m.Into)
}

// request returns the message to the server, without the identity.
func (a *rowsAsk) request() *rpc.RowsRequest {
	request := &rpc.RowsRequest{Tables: make([]string, len(a.messages)), Counts: make([]uint32, len(a.messages))}
	rows, keys := 0, 0
	for _, m := range a.messages {
		rows, keys = rows+len(m.Rows), keys+len(m.Keys)
	}
	request.Rows, request.Keys = make([]uint32, 0, rows), make([]int64, 0, keys)
	for i, m := range a.messages {
		request.Tables[i], request.Counts[i] = m.Name, uint32(len(m.Rows)+len(m.Keys))
		for _, row := range m.Rows {
			request.Rows = append(request.Rows, uint32(row))
		}
		request.Keys = append(request.Keys, m.Keys...)
	}
	return request
}

// what names the request in errors and waits.
func (a *rowsAsk) what(round id.Round) string {
	if n := len(a.messages); n > 1 {
		return fmt.Sprintf("rows of %s and %d more for round %d", a.messages[0].Name, n-1, round)
	}
	return fmt.Sprintf("rows of %s for round %d", a.messages[0].Name, round)
}

// fetchRows makes one request for rows as they are before a round, and its retries.
func fetchRows(ctx context.Context, c *Comm, round id.Round, ask *rowsAsk) error {
	request, identity := ask.request(), c.identity
	return c.call(ctx, ask.server, ask.what(round), func(ctx context.Context, from rpc.ParameterServerClient, retry id.Retry) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request.Id = identity.Of(c.Rank, round, retry)
		stream, err := from.GetRows(ctx, request, grpc.WaitForReady(false))
		if err != nil {
			return err
		}
		return ask.receive(stream)
	})
}

// rowsRooms are for answers while they arrive.
var rowsRooms = sync.Pool{New: func() any { return new([]int32) }}

// receive receives the answer, and puts the rows where they are wanted.
func (a *rowsAsk) receive(stream wire.Receiver) error {
	room := rowsRooms.Get().(*[]int32)
	defer rowsRooms.Put(room)
	_, err := wire.ReceiveVariable(stream, func(h *rpc.VariableChunk) (*tensor.Tensor, error) {
		most := a.elements + len(a.messages) // of float32
		if tensor.DType(h.Dtype) != tensor.Int32 || len(h.Dims) != 1 || h.Dims[0] < 1 || h.Dims[0] > int64(most) {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v%v for %d rows", tensor.DType(h.Dtype), h.Dims, a.rows), fault.Wantf("a vector of int32 of at most %d elements", most))
		}
		*room = slices.Grow((*room)[:0], int(h.Dims[0]))[:h.Dims[0]]
		return tensor.FromSlice(*room)
	})
	if err != nil {
		return err
	}
	return a.place(*room)
}

// place puts the rows of an answer where they are wanted. It makes float32 of those of a table that is stored as bfloat16.
func (a *rowsAsk) place(words []int32) error {
	for _, m := range a.messages {
		elements, left, err := wire.TakeRows(words, len(m.Into))
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(m.Name), fault.Cause(err))
		}
		if words = left; elements.DType() == tensor.BFloat16 {
			kernel.FromBFloat16(m.Into, tensor.Data[uint16](elements))
		} else {
			copy(m.Into, elements.Float32s())
		}
	}
	if len(words) > 0 {
		return fault.E(fault.Corrupt, fault.Gotf("%d words behind the rows", len(words)))
	}
	return nil
}
