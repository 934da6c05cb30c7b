package pserver_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// withTables is a program whose updates give a new key its row and count two others, while the test holds them. It has a table that grows, cut to regions
// 16 to 47, and one that does not, each with a moment.
func withTables(t *testing.T, sync bool, hold <-chan struct{}, begun chan<- struct{}) *pstest.Program {
	const region, first, rows, total = 3, 16 * 3, 32 * 3, 64 * 3
	p := pstest.SGD(0, sync, 1, 4)
	slice := func(name, origin, table string, dtype tensor.DType, first, total int64, dims ...int64) comm.Slice {
		v, err := tensor.New(dtype, dims...)
		if err != nil {
			t.Fatal(err)
		}
		p.Variables[name] = v
		s := comm.Slice{Name: name, Origin: origin, FirstRow: first, Rows: dims[0], TotalRows: total, Table: table}
		p.Service.Slices = append(p.Service.Slices, s)
		return s
	}
	w := slice("w.1", "w", "w", tensor.Float32, first, total, rows, 2)
	slice("w.keys.1", "w.keys", "w", tensor.Int64, first, total, rows)
	slice("w.index.1", "w.index", "w", tensor.Int32, first, total, rows)
	slice("w.counts.1", "w.counts", "w", tensor.Int32, first, total, rows)
	slice("w.rounds.1", "w.rounds", "w", tensor.Int64, 0, 1, 1)
	slice("w.moment.1", "w.moment", "w", tensor.Float32, first, total, rows, 2)
	slice("w.beta.1", "w.beta", "w", tensor.Float32, 0, 1, 1)
	slice("f", "f", "f", tensor.Float32, 0, 10, 10, 3)
	slice("f.moment", "f.moment", "f", tensor.Float32, 0, 10, 10, 3)
	p.Service.Tables = []comm.GrownTable{{Slice: w, Keys: "w.keys.1", Index: "w.index.1", Counts: "w.counts.1"}}
	update := p.Blocks[1]
	next := int64(0)
	newKey := func(take func(int64) bool) {
		for next++; ; next++ {
			if mixed := kernel.MixKey(next); kernel.RegionOf(mixed) >= 16 && kernel.RegionOf(mixed) < 48 && take(mixed) {
				return
			}
		}
	}
	p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
		begun <- struct{}{}
		<-hold
		writer := kernel.KeyWriter{KeyTable: kernel.KeyTable{Keys: p.Variables["w.keys.1"].Int64s(), Index: p.Variables["w.index.1"].Int32s(),
			Counts: p.Variables["w.counts.1"].Int32s(), First: 16, Region: region}, Stamp: 1}
		newKey(func(mixed int64) bool { _, added := writer.Insert(mixed); return added })
		newKey(writer.Count)
		newKey(writer.Count)
		return update(ctx, step)
	}
	return p
}

// A status tells what a server has of tables, also while updates change them. In sync mode it does not wait for the round that is being applied, which may wait
// for other servers, and tells the rows of that round as soon as it is applied.
func TestTablesOfAStatus(t *testing.T) {
	for _, sync := range []bool{true, false} {
		hold, begun := make(chan struct{}), make(chan struct{}, 1)
		s := pstest.Start(t, pstest.Config(1), withTables(t, sync, hold, begun))
		check := func(when string, want ...*rpc.TableUse) {
			t.Helper()
			status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
			if err != nil || len(status.Tables) != len(want) {
				t.Fatalf("%s: %v, %v", when, status.GetTables(), err)
			}
			for i, got := range status.Tables {
				if !proto.Equal(got, want[i]) {
					t.Errorf("sync %t, %s: got %v, want %v", sync, when, got, want[i])
				}
			}
		}
		grown := func(rows, candidates int64) *rpc.TableUse {
			return &rpc.TableUse{Name: "w", Grows: true, Rows: rows, Room: 96, Candidates: candidates, Values: 8 * rows, Slots: 8*rows + 4,
				Structure: 4*96 + 8 + 8*rows + 12*candidates}
		}
		fixed := &rpc.TableUse{Name: "f", Rows: 10, Room: 10, Values: 120, Slots: 120}
		check("at first", grown(0, 0), fixed)
		a := pstest.Trainer{Client: s.Client}
		for round := range uint64(3) {
			if _, err := a.Send(t.Context(), round, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
				t.Fatal(err)
			}
			if err := a.Barrier(t.Context(), round, 1, 1); err != nil {
				t.Fatal(err)
			}
			<-begun
			if n := int64(round); sync {
				check("in a round", grown(n, 2*n), fixed)
			}
			hold <- struct{}{}
			if _, _, err := a.Get(t.Context(), round+1, "w0", 4); err != nil {
				t.Fatal(err)
			}
			check("after a round", grown(int64(round)+1, 2*int64(round)+2), fixed)
		}
	}
}
