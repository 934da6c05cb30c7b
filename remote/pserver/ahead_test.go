package pserver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// moving is a server with a table, whose rounds change single rows, and a dense parameter, and two servers that each take half of both.
type moving struct {
	t     *testing.T
	table *tensor.Tensor // of old
	old   *pstest.Server
	next  []*pstest.Server
}

// byRows lets a program tell which rows of w0 a round changes: those where the gradient is not zero.
func byRows(t *testing.T, p *pstest.Program) {
	rows, err := tensor.New(tensor.Int32, compress.RowsDims(tableRows, 1)...)
	if err != nil {
		t.Fatal(err)
	}
	form, _ := compress.RowsOf(rows)
	p.Variables["w0@ROWS"], p.ByRows = rows, map[string]string{"w0": "w0@ROWS"}
	update, grad := p.Blocks[1], p.Variables["w0@GRAD"].Float32s()
	p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
		var changed []int32
		for row, x := range grad {
			if x != 0 {
				changed = append(changed, int32(row))
			}
		}
		numbers, _ := form.Begin(len(changed))
		copy(numbers, changed)
		return update(ctx, step)
	}
}

const (
	tableRows = 3 << 20 // of one element: three stretches
	denseRows = 4096
)

func newMoving(t *testing.T) *moving {
	whole := pstest.SGD(0, true, 1, tableRows, denseRows)
	for i := range whole.Variables["w0"].Float32s() {
		whole.Variables["w0"].Float32s()[i] = float32(i)
	}
	byRows(t, whole)
	m := &moving{t: t, table: whole.Variables["w0"], old: pstest.Start(t, pstest.Config(1), whole)}
	for index := range 2 {
		cfg := pstest.Config(1)
		cfg.Index, cfg.Servers = index, 2
		cfg.Peer = func(int) (rpc.ParameterServerClient, error) { return m.old.Client, nil }
		half := pstest.SGD(index, true, 1, tableRows/2, denseRows/2)
		for i, rows := range []int64{tableRows, denseRows} {
			slice := &half.Service.Slices[i]
			slice.FirstRow, slice.TotalRows = int64(index)*rows/2, rows
			cfg.Before = append(cfg.Before, &job.Held{Name: slice.Name, Origin: slice.Origin, Rows: rows, TotalRows: rows})
		}
		if index == 0 {
			cfg.Same = m.old.Server
		}
		s := pstest.New(t, cfg)
		s.Serve(half)
		m.next = append(m.next, s)
	}
	return m
}

// round trains a round that adds 1 to some rows of the table, and to all of the dense parameter.
func (m *moving) round(round uint64, rows ...int) {
	a := pstest.Trainer{Client: m.old.Client}
	g := pstest.Vector(tableRows)
	for _, row := range rows {
		g.Float32s()[row] = -1
	}
	for name, value := range map[string]*tensor.Tensor{"w0@GRAD": g, "w1@GRAD": pstest.Filled(denseRows, -1)} {
		if _, err := a.Send(m.t.Context(), round, name, value); err != nil {
			m.t.Error(err)
		}
	}
	if err := a.Barrier(m.t.Context(), round, 1, 2); err != nil {
		m.t.Error(err)
	}
	if _, _, err := a.Get(m.t.Context(), round+1, "w1", denseRows); err != nil {
		m.t.Error(err)
	}
}

// restore asks a next server for the state of a round, or to copy ahead, and returns how many bytes that took.
func (m *moving) restore(index int, round id.Round, ahead bool) int64 {
	m.t.Helper()
	who := pstest.Identity
	if !ahead {
		who.Generation, who.Fence = g+1, 11
	}
	a, err := m.next[index].Client.Restore(m.t.Context(), &rpc.RestoreRequest{Id: who.Of(0, round, 0), Ahead: ahead})
	if err != nil {
		m.t.Fatal(err)
	}
	return a.Bytes
}

// pause begins a generation that nobody trains in.
func (m *moving) pause(round uint64) {
	if _, err := m.old.Freeze(g); err != nil {
		m.t.Fatal(err)
	}
	if err := m.old.Resume(g+1, round, pstest.Members(0)); err != nil {
		m.t.Fatal(err)
	}
}

// check compares what the next servers have with what the server before has.
func (m *moving) check(round uint64) {
	m.t.Helper()
	for _, next := range m.next {
		who := pstest.Identity
		who.Generation, who.Fence = g+1, 12
		if _, err := next.Client.Freeze(m.t.Context(), &rpc.FreezeRequest{Id: who.Of(0, 0, 0)}); err != nil {
			m.t.Fatal(err)
		}
		who.Generation = g + 2
		if _, err := next.Client.Resume(m.t.Context(), &rpc.ResumeRequest{Id: who.Of(0, 0, 0), Round: round, Members: pstest.Members(0)}); err != nil {
			m.t.Fatal(err)
		}
	}
	a := pstest.Trainer{Client: m.old.Client, Generation: g + 1}
	for i, rows := range []int64{tableRows, denseRows} {
		name := []string{"w0", "w1"}[i]
		want, _, err := a.Get(m.t.Context(), round, name, rows)
		if err != nil {
			m.t.Fatal(err)
		}
		for index, next := range m.next {
			b := pstest.Trainer{Client: next.Client, Generation: g + 2}
			have, _, err := b.Get(m.t.Context(), round, name, rows/2)
			if err != nil {
				m.t.Fatal(err)
			}
			if !slices.Equal(have.Float32s(), want.Float32s()[int64(index)*rows/2:][:rows/2]) {
				m.t.Errorf("%s of server %d differs", name, index)
			}
		}
	}
}

// What was copied ahead does not move again, but for blocks that rounds have changed since. What changes as a whole moves as a whole.
func TestCopyAhead(t *testing.T) {
	const block, half, dense = 4096, 4 * tableRows / 2, 4 * denseRows / 2
	m := newMoving(t)
	m.round(0, 5, tableRows-1)
	for index := range 2 {
		if n := m.restore(index, 0, true); n < half+dense-block { // here, what is zero as the room for it need not be copied
			t.Errorf("server %d has copied %d bytes, want at least %d", index, n, half+dense-block)
		}
	}
	m.round(1, 7, tableRows/2+1)
	for index := range 2 {
		if n := m.restore(index, 0, true); n != block+dense {
			t.Errorf("server %d has copied %d bytes again, want %d", index, n, block+dense)
		}
	}
	m.round(2, 3, tableRows/2+3*1024, tableRows-1)
	m.pause(3)
	for index, want := range []int64{0, 2*block + dense} {
		if n := m.restore(index, 3, false); n != want {
			t.Errorf("while nobody trains, %d bytes have come to server %d, want %d", n, index, want)
		}
	}
	m.check(3)
	if n := m.restore(1, 3, true); n != 0 {
		t.Errorf("a server that is in use has copied %d bytes", n)
	}
}

// While the job pauses, a server looks only at what rounds have changed since it was asked last, also of what was asked for more than once.
func TestMoveReadsWhatRoundsHaveChanged(t *testing.T) {
	const block = 4096
	m := newMoving(t)
	m.round(0, 5)
	for range 2 {
		for index := range 2 {
			m.restore(index, 0, true)
		}
	}
	m.round(1, 7*1024, tableRows/2, tableRows-1)
	m.table.Float32s()[tableRows/2+4096]++ // of no round: whoever reads the block copies it
	m.pause(2)
	if n := m.restore(1, 2, false); n != 2*block+4*denseRows/2 {
		t.Errorf("%d bytes have come to server 1, want two blocks and the dense parameter", n)
	}
	m.table.Float32s()[tableRows/2+4096]--
	m.restore(0, 2, false)
	m.check(2)
}

// Rows that are zeros, as those of a table that were never used, do not travel.
func TestCopyRowsLeavesZerosOut(t *testing.T) {
	sparse := pstest.SGD(0, true, 1, 3*1024)
	sparse.Variables["w0"].Float32s()[1500] = 1
	old := pstest.Start(t, pstest.Config(1), sparse)
	a, err := old.Client.CopyRows(t.Context(), &rpc.CopyRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", Rows: 3 * 1024, Ahead: true})
	if err != nil || !slices.Equal(a.Blocks, []uint32{1}) || len(a.Data) != 4096 {
		t.Errorf("blocks %v with %d bytes, %v; want block 1", a.GetBlocks(), len(a.GetData()), err)
	}
}

// Servers copy while rounds change what they copy.
func TestCopyAheadOfRounds(t *testing.T) {
	const rounds = 12
	m := newMoving(t)
	var group sync.WaitGroup
	for index := range m.next {
		group.Go(func() {
			who := pstest.Identity
			for range 3 {
				if _, err := m.next[index].Client.Restore(t.Context(), &rpc.RestoreRequest{Id: who.Of(0, 0, 0), Ahead: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range rounds {
		m.round(uint64(round), round*1000, tableRows-1-round*5000)
	}
	group.Wait()
	m.pause(rounds)
	for index := range m.next {
		m.restore(index, rounds, false)
	}
	m.check(rounds)
}

// Requests that no server of a next placement makes are refused.
func TestCopyRowsRefuses(t *testing.T) {
	old := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4, 3<<20))
	for name, c := range map[string]struct {
		m    *rpc.CopyRequest
		want error
	}{
		"another variable":  {&rpc.CopyRequest{Name: "w9", Rows: 4}, fault.NotFound},
		"rows that are not": {&rpc.CopyRequest{Name: "w0", FirstRow: 1, Rows: 4}, fault.ShapeMismatch},
		"rows below 0":      {&rpc.CopyRequest{Name: "w0", FirstRow: -1, Rows: 2}, fault.ShapeMismatch},
		"rows without end":  {&rpc.CopyRequest{Name: "w0", FirstRow: 1, Rows: 1<<63 - 1}, fault.ShapeMismatch},
		"more than a chunk": {&rpc.CopyRequest{Name: "w1", Rows: 3 << 20}, fault.InvalidArgument},
		"too many sums":     {&rpc.CopyRequest{Name: "w0", Rows: 4, Sums: []uint64{1, 2}}, fault.InvalidArgument},
		"rows that are":     {&rpc.CopyRequest{Name: "w0", Rows: 4}, nil},
	} {
		c.m.Id, c.m.Ahead = pstest.Identity.Of(0, 0, 0), c.want != nil
		_, err := old.Client.CopyRows(t.Context(), c.m)
		if err = wire.FromStatus("", err); c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	async := pstest.Start(t, pstest.Config(1), pstest.SGD(0, false, 1, 4))
	_, err := async.Client.CopyRows(t.Context(), &rpc.CopyRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", Rows: 4, Ahead: true})
	if err = wire.FromStatus("", err); !errors.Is(err, fault.Unsupported) {
		t.Errorf("an async job: %v", err)
	}
}
