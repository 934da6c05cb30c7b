package pserver

import (
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Limits of one answer of GetRows.
const (
	mostRows     = 1 << 20
	mostRowBytes = 64 << 20
)

// GetRows sends rows of a table: in sync mode as they are after the rounds below id.round, in async mode as they are when all contributions of this trainer are
// applied.
//
// In sync mode the rows stay as they are while they are read: the table changes when this trainer has declared the round, which it does after it has
// received them, or when its generation has ended. Then nothing counts that the trainer makes of them.
func (s *Server) GetRows(m *rpc.RowsRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	ctx, c := stream.Context(), s.core
	from, err := admitTrainer(ctx, s, m.Id)
	if err != nil {
		return err
	}
	if _, err := c.decide(ctx, Read{from}); err != nil {
		return err
	}
	table, err := tableOf(s, m.Name)
	if err != nil {
		return c.refuse(err)
	}
	room := rowsAnswers.Get().(*rowsAnswer)
	snapshot, err := room.gather(s, m, table)
	rowsAnswers.Put(room)
	if err != nil {
		return c.refuse(err)
	}
	if c.rounds != nil {
		defer c.cfg.Times.Mark()
	}
	return snapshot.Send(stream)
}

// A rowsAnswer is memory for one answer. A server with large tables has much memory that lives, so its collector runs rarely: answers must leave little behind.
type rowsAnswer struct {
	rows   []int64
	values []float32
	halves []uint16 // of a table that is stored as bfloat16: its rows travel as they are
}

var rowsAnswers = sync.Pool{New: func() any { return new(rowsAnswer) }}

// gather copies the rows that are asked for, while nobody changes the table if it may change.
func (r *rowsAnswer) gather(s *Server, m *rpc.RowsRequest, table *tensor.Tensor) (*wire.Snapshot, error) {
	width := int(table.Dims()[1])
	rows := len(m.Rows) + len(m.Keys)
	if rows > mostRows || rows*width > mostRowBytes/4 {
		return nil, fault.E(fault.TooLarge, fault.Var(m.Name), fault.Gotf("a request for %d rows of %d elements", rows, width),
			fault.Wantf("at most %d rows and %d bytes", mostRows, mostRowBytes))
	}
	grown, view, err := grownTable(s, m)
	if err == nil && grown == nil {
		err = r.read(m, table)
	}
	if err != nil {
		return nil, err
	}
	if s.core.rounds == nil {
		s.values.Lock()
		defer s.values.Unlock()
	}
	stored := table.DType() == tensor.BFloat16
	if grown != nil || !stored {
		r.values = slices.Grow(r.values[:0], rows*width)[:rows*width]
	}
	if stored {
		r.halves = slices.Grow(r.halves[:0], rows*width)[:rows*width]
	}
	switch {
	case grown != nil:
		grown.LookUp(r.values, table, view, m.Keys)
		if stored {
			kernel.ToBFloat16(r.halves, r.values) // exact
		}
	case stored:
		kernel.GatherHalves(r.halves, table.Halves(), r.rows, width)
	default:
		kernel.GatherRows(r.values, table.Float32s(), r.rows, width)
	}
	var out *tensor.Tensor
	if stored {
		out, err = tensor.FromHalves(tensor.BFloat16, r.halves, int64(rows), int64(width))
	} else {
		out, err = tensor.FromSlice(r.values, int64(rows), int64(width))
	}
	if err != nil {
		return nil, err
	}
	return wire.Snap(&rpc.VariableChunk{Name: m.Name}, out, wire.Keep)
}

// grownTable returns the table that a request names, nil if it does not grow, and what finds its keys. A request has keys if the table grows, else row numbers.
func grownTable(s *Server, m *rpc.RowsRequest) (*comm.GrownTable, kernel.KeyTable, error) {
	at := slices.IndexFunc(s.cuts.service.Tables, func(t comm.GrownTable) bool { return t.Name == m.Name })
	if at < 0 && len(m.Keys) == 0 {
		return nil, kernel.KeyTable{}, nil
	}
	if at >= 0 && len(m.Rows) == 0 {
		t := &s.cuts.service.Tables[at]
		keys, _ := s.values.Variable(t.Keys)
		index, _ := s.values.Variable(t.Index)
		if view, ok := t.View(keys, index); ok {
			return t, view, nil
		}
	}
	return nil, kernel.KeyTable{}, fault.E(fault.Foreign, fault.Var(m.Name), fault.At(s.core.Where), fault.Gotf("a request for %d rows and %d keys", len(m.Rows), len(m.Keys)),
		fault.Want("keys of a table that grows, or rows of another"))
}

// tableOf returns a variable that this server keeps from round to round and that has rows of float32, or of bfloat16.
func tableOf(s *Server, name string) (*tensor.Tensor, error) {
	for _, slice := range s.cuts.service.Slices {
		if slice.Name != name {
			continue
		}
		if t, ok := s.values.Variable(name); ok && (t.DType() == tensor.Float32 || t.DType() == tensor.BFloat16) && len(t.Dims()) == 2 {
			return t, nil
		}
	}
	return nil, fault.E(fault.Foreign, fault.Var(name), fault.At(s.core.Where), fault.Got("a request for rows of a table that is not here"))
}

// read checks which rows are asked for.
func (r *rowsAnswer) read(m *rpc.RowsRequest, table *tensor.Tensor) error {
	height := table.Dims()[0]
	r.rows = r.rows[:0]
	for _, row := range m.Rows {
		if int64(row) >= height {
			return fault.E(fault.InvalidArgument, fault.Var(m.Name), fault.Gotf("row %d", row), fault.Wantf("0 to %d", height-1))
		}
		r.rows = append(r.rows, int64(row))
	}
	return nil
}

// rowsRoom returns the part of a buffer that takes the rows of a table that a call brings.
func rowsRoom(h *rpc.VariableChunk, buffer *tensor.Tensor) (*tensor.Tensor, error) {
	if len(h.Dims) != 1 || h.Dims[0] < 1 || h.Dims[0] > int64(buffer.Len()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(h.Name), fault.Gotf("rows of dims %v", h.Dims), fault.Wantf("a vector of at most %d elements", buffer.Len()))
	}
	if buffer.DType() == tensor.Int64 {
		return tensor.FromSlice(buffer.Int64s()[:h.Dims[0]])
	}
	return tensor.FromSlice(buffer.Int32s()[:h.Dims[0]])
}

// checkArrived refuses rows that have come with another length than they say.
func checkArrived(name string, buffer, arrived *tensor.Tensor) error {
	used, err := compress.RowsInUse(buffer)
	if err == nil && used.Bytes() != arrived.Bytes() {
		err = fault.E(fault.Corrupt, fault.Gotf("%d bytes of rows", arrived.Bytes()), fault.Wantf("%d, as they say", used.Bytes()))
	}
	if err != nil {
		return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	return nil
}
