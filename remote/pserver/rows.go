package pserver

import (
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Limits of one answer of GetRows, for all of its tables together.
const (
	mostTables   = 1 << 12
	mostRows     = 1 << 20
	mostRowBytes = 64 << 20
)

// GetRows sends rows of tables: in sync mode as they are after the rounds below id.round, in async mode as they are when all contributions of this trainer are
// applied, and all at the same moment.
//
// In sync mode the rows stay as they are while they are read: the tables change when this trainer has declared the round, which it does after it has
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
	room := rowsAnswers.Get().(*rowsAnswer)
	snapshot, err := room.gather(s, m)
	room.wanted = slices.Delete(room.wanted, 0, len(room.wanted))
	rowsAnswers.Put(room)
	if err != nil {
		return c.refuse(err)
	}
	if c.rounds != nil {
		defer c.cfg.Times.Mark()
	}
	return snapshot.Send(stream)
}

// servedTables are the tables whose rows trainers ask for, by the names of their slices at a server. The value is nil for one that does not grow.
type servedTables map[string]*comm.GrownTable

// servedTablesOf finds the variables that a server keeps from round to round and that have rows of float32, or of bfloat16.
func servedTablesOf(service *comm.Service, v ops.BlockRunner) servedTables {
	all := servedTables{}
	for _, slice := range service.Slices {
		if t, ok := v.Variable(slice.Name); ok && (t.DType() == tensor.Float32 || t.DType() == tensor.BFloat16) && len(t.Dims()) == 2 {
			all[slice.Name] = nil
		}
	}
	for i := range service.Tables {
		t := &service.Tables[i]
		if _, ok := all[t.Name]; ok {
			all[t.Name] = t
		}
	}
	return all
}

// find returns the table that a request names, without the rows.
func (s servedTables) find(name string, v ops.BlockRunner) (w wantedRows, ok bool) {
	if w.grown, ok = s[name]; ok {
		w.table, ok = v.Variable(name)
	}
	if ok && w.grown != nil {
		keys, _ := v.Variable(w.grown.Keys)
		index, _ := v.Variable(w.grown.Index)
		w.view, ok = w.grown.View(keys, index)
	}
	return w, ok
}

// A rowsAnswer is memory for one answer. A server with large tables has much memory that lives, so its collector runs rarely: answers must leave little behind.
type rowsAnswer struct {
	wanted []wantedRows
	words  []int32
	rows   []int64   // of one table
	values []float32 // of a table that grows and is stored as bfloat16
}

var rowsAnswers = sync.Pool{New: func() any { return new(rowsAnswer) }}

// wantedRows are the rows of one table that a request is for: rows, or keys if grown is not nil.
type wantedRows struct {
	table *tensor.Tensor
	grown *comm.GrownTable
	view  kernel.KeyTable // of grown
	rows  []uint32
	keys  []int64
}

// elements returns how many elements the rows have.
func (w *wantedRows) elements() int { return (len(w.rows) + len(w.keys)) * int(w.table.Dims()[1]) }

// gather copies the rows that are asked for, while nobody changes a table if it may change.
func (r *rowsAnswer) gather(s *Server, m *rpc.RowsRequest) (*wire.Snapshot, error) {
	words, err := r.read(s, m)
	if err != nil {
		return nil, err
	}
	r.words = slices.Grow(r.words[:0], words)[:words]
	if s.core.rounds == nil {
		s.values.Lock()
		defer s.values.Unlock()
	}
	left := r.words
	for i := range r.wanted {
		w := &r.wanted[i]
		var into *tensor.Tensor
		if into, left, err = wire.BeginRows(left, w.table.DType(), w.elements()); err != nil {
			return nil, err
		}
		r.copyRows(into, w)
	}
	out, err := tensor.FromSlice(r.words, int64(words))
	if err != nil {
		return nil, err
	}
	return wire.Snap(&rpc.VariableChunk{}, out, wire.Keep)
}

// copyRows copies the rows of one table.
func (r *rowsAnswer) copyRows(into *tensor.Tensor, w *wantedRows) {
	width, stored := int(w.table.Dims()[1]), w.table.DType() == tensor.BFloat16
	r.rows = r.rows[:0]
	for _, row := range w.rows {
		r.rows = append(r.rows, int64(row))
	}
	switch {
	case w.grown != nil && stored:
		r.values = slices.Grow(r.values[:0], into.Len())[:into.Len()]
		w.grown.LookUp(r.values, w.table, w.view, w.keys)
		kernel.ToBFloat16(tensor.Data[uint16](into), r.values) // exact
	case w.grown != nil:
		w.grown.LookUp(into.Float32s(), w.table, w.view, w.keys)
	case stored:
		kernel.GatherHalves(tensor.Data[uint16](into), tensor.Data[uint16](w.table), r.rows, width)
	default:
		kernel.GatherRows(into.Float32s(), w.table.Float32s(), r.rows, width)
	}
}

// read checks a request, divides it by tables, and returns how many words its answer has.
func (r *rowsAnswer) read(s *Server, m *rpc.RowsRequest) (words int, err error) {
	rows, keys := m.Rows, m.Keys
	if n := len(rows) + len(keys); n > mostRows || len(m.Tables) > mostTables {
		return 0, fault.E(fault.TooLarge, fault.Gotf("a request for %d rows of %d tables", n, len(m.Tables)), fault.Wantf("at most %d rows of %d", mostRows, mostTables))
	}
	if len(m.Counts) != len(m.Tables) {
		return 0, fault.E(fault.Corrupt, fault.Gotf("a request with %d counts for %d tables", len(m.Counts), len(m.Tables)), fault.Want("one for each"))
	}
	for i, name := range m.Tables {
		w, ok := s.served.find(name, s.values)
		if !ok {
			return 0, fault.E(fault.Foreign, fault.Var(name), fault.At(s.core.Where), fault.Got("a request for rows of a table that is not here"))
		}
		if n := int(m.Counts[i]); w.grown != nil {
			w.keys, keys, err = first(keys, n, name, "keys of a table that grows")
		} else if w.rows, rows, err = first(rows, n, name, "rows of a table that does not grow"); err == nil {
			err = checkRows(name, w.rows, w.table.Dims()[0])
		}
		if err != nil {
			return 0, err
		}
		if words += wire.RowsWords(w.table.DType(), w.elements()); words > mostRowBytes/4 {
			return 0, fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("a request for rows of more than %d bytes in all", mostRowBytes), fault.Want("several requests"))
		}
		r.wanted = append(r.wanted, w)
	}
	if len(rows)+len(keys) > 0 {
		return 0, fault.E(fault.Corrupt, fault.Gotf("a request for %d rows and %d keys that are of no table", len(rows), len(keys)))
	}
	return words, nil
}

// first returns the first n numbers of a request, which are for one table, and the others.
func first[N uint32 | int64](numbers []N, n int, name, what string) (these, others []N, err error) {
	if n > len(numbers) {
		return nil, nil, fault.E(fault.Corrupt, fault.Var(name), fault.Gotf("a request for %d rows with %d", n, len(numbers)), fault.Want(what))
	}
	return numbers[:n:n], numbers[n:], nil
}

// checkRows checks which rows of a table are asked for.
func checkRows(name string, rows []uint32, height int64) error {
	for _, row := range rows {
		if int64(row) >= height {
			return fault.E(fault.InvalidArgument, fault.Var(name), fault.Gotf("row %d", row), fault.Wantf("0 to %d", height-1))
		}
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
