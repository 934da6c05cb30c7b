package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// ways are those in which slices travel.
var ways = map[string]dataplane.Carrier{"frames": dataplane.TCP, "memory": dataplane.Shared}

// stepOver sends an async step, and reads the parameters to which it is applied.
func stepOver(l *pstest.Line, step uint64, x float32, sizes ...int64) ([]float32, error) {
	var values []float32
	data := l.Data(step, nil)
	for i, n := range sizes {
		data = errors.Join(data, l.Data(step, []int{i}, pstest.Filled(n, x)))
	}
	if err := errors.Join(data, l.Get(step)); err != nil {
		return nil, err
	}
	got, err := l.Params(step)
	for _, v := range got {
		values = append(values, v.Float32s()[0], v.Float32s()[v.Len()-1])
	}
	return values, err
}

// Async trainers over data connections and over calls update the same parameters. Each reads what it has written. Server 0 enters a step in the ledger
// once, however often it is declared.
func TestAsyncOverData(t *testing.T) {
	const steps = 9
	sizes := []int64{3, 2_500_000} // the last one is cut over three frames
	s := pstest.Start(t, pstest.WithData(t, pstest.Config(3)), pstest.SGD(0, false, 1, sizes...))
	send, receive := pstest.Names(len(sizes))
	err := pstest.Parallel(3, func(rank int) error {
		of := pstest.Trainer{Client: s.Client, Rank: uint32(rank), Carrier: []dataplane.Carrier{dataplane.Shared, dataplane.TCP, dataplane.Auto}[rank]}
		var l *pstest.Line
		var err error
		if rank < 2 {
			if l, err = of.Open(t.Context(), 0, send, receive, nil); err != nil {
				return err
			}
			defer l.Close()
		}
		for step := range uint64(steps) {
			var got []float32
			if l != nil {
				got, err = stepOver(l, step, 1, sizes...)
			} else {
				for i, n := range sizes {
					_, sent := of.Send(t.Context(), step, fmt.Sprintf("w%d@GRAD", i), pstest.Filled(n, 1))
					err = errors.Join(err, sent)
				}
				w, _, read := of.Get(t.Context(), 0, "w0", 3)
				got, err = w.Float32s(), errors.Join(err, read)
			}
			if err != nil {
				return err
			}
			if slices.Max(got) > -float32(step+1) || slices.Min(got) < -3*steps {
				return fmt.Errorf("trainer %d reads %v after %d steps of its own", rank, got, step+1)
			}
			if l != nil {
				m := &rpc.BarrierRequest{Rows: 1, Variables: 2, Records: []*rpc.RecordRange{{From: int64(rank)*100 + int64(step), To: int64(rank)*100 + int64(step) + 1}}}
				for range 2 {
					if err := errors.Join(l.WriteMessage(l.Head(dataplane.Declare, step), m), l.Answer(dataplane.Ack, step)); err != nil {
						return err
					}
				}
			}
		}
		return of.Complete(t.Context())
	})
	all(t, err, s.Wait())
	ledger, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job})
	if err != nil || len(ledger.Passes) != 1 || ledger.Passes[0].Records != 2*steps || ledger.Passes[0].Again != 0 {
		t.Errorf("the ledger is %v, %v", ledger, err)
	}
}

// What an async trainer sends again on another connection is applied once, also where only a part had arrived, and it reads what it has written.
func TestAsyncDataAgain(t *testing.T) {
	for way, carrier := range ways {
		t.Run(way, func(t *testing.T) {
			s := pstest.Start(t, pstest.WithData(t, pstest.Config(1)), pstest.SGD(0, false, 1, 4, 2))
			of := pstest.Trainer{Carrier: carrier}
			l := open(t, s, of, 0, 2)
			for step := range uint64(3) {
				all(t, l.Data(step, []int{1}, pstest.Filled(2, 1)), l.Get(step)) // half of it
				l = open(t, s, of, step, 2)
				for range 2 {
					got, err := stepOver(l, step, 1, 4, 2)
					want := -float32(step + 1)
					if all(t, err); slices.Max(got) != want || slices.Min(got) != want {
						t.Fatalf("after step %d: %v", step, got)
					}
					l = open(t, s, of, step, 2)
				}
			}
		})
	}
}

// A trainer that is ahead of the updates is not read: no more of its contributions are here than the queue has room for. What has been acknowledged is
// applied as it was, whatever the trainer writes into shared memory afterwards.
func TestAsyncBackpressure(t *testing.T) {
	const steps, room = 30, 10 // one is being applied, eight are in the queue, one waits for it
	for way, carrier := range ways {
		t.Run(way, func(t *testing.T) {
			p := pstest.SGD(0, false, 1, 4)
			release, applied := make(chan struct{}), []float32{}
			p.Blocks[1] = func(ctx context.Context, _ ops.Step) error {
				select {
				case <-release:
				case <-ctx.Done():
				}
				applied = append(applied, p.Variables["w0@GRAD"].Float32s()[3])
				return nil
			}
			s := pstest.Start(t, pstest.WithData(t, pstest.Config(1)), p)
			of := pstest.Trainer{Client: s.Client, Carrier: carrier}
			l, err := of.Open(t.Context(), 0, []string{"w0@GRAD"}, nil, nil)
			all(t, err)
			defer l.Close()
			var acknowledged atomic.Int64
			told := make(chan error, 1)
			var want []float32
			for step := range steps {
				want = append(want, float32(step))
			}
			go func() {
				for step := range uint64(steps) {
					if err := errors.Join(l.Data(step, []int{0}, pstest.Filled(4, float32(step))), l.Answer(dataplane.Ack, step)); err != nil {
						told <- err
						return
					}
					acknowledged.Add(1)
				}
				told <- nil
			}()
			for range 300 { // whoever does not wait has the time to go on
				refusals(t, s)
			}
			if n := acknowledged.Load(); n >= room {
				t.Errorf("%d contributions are acknowledged, and none is applied", n)
			}
			close(release)
			all(t, <-told, of.Complete(t.Context()), s.Wait())
			if !slices.Equal(applied, want) {
				t.Errorf("applied %v", applied)
			}
		})
	}
}

// A contribution that waits in a queue is applied as it was, although its connection and the memory of that have ended.
func TestAsyncConnectionEndsWithQueuedContributions(t *testing.T) {
	for way, carrier := range ways {
		t.Run(way, func(t *testing.T) {
			const n = 100_000
			p := pstest.SGD(0, false, 1, n)
			release, update := make(chan struct{}), p.Blocks[1]
			p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return update(ctx, step)
			}
			s := pstest.Start(t, pstest.WithData(t, pstest.Config(1)), p)
			of := pstest.Trainer{Carrier: carrier}
			l := open(t, s, of, 0, 1)
			all(t, l.Data(0, []int{0}, pstest.Filled(n, 7)), l.Get(0))
			untilWaits(t, s, "queued contributions of trainer 0")
			next := open(t, s, of, 0, 1)
			for range 300 { // the server has the time to free the memory
				refusals(t, s)
			}
			all(t, next.Get(0))
			close(release)
			all(t, values(next, 0, -7))
		})
	}
}

// When the members of an async job change, the connections of those who stay go on. That of a process which is gone ends, and whatever it still sends
// changes nothing; the next process of its rank begins with a connection of its own.
func TestAsyncConnectionsOfMembers(t *testing.T) {
	s := pstest.Start(t, pstest.WithData(t, pstest.Config(3)), pstest.SGD(0, false, 1, 2))
	stays, lost, gone := open(t, s, pstest.Trainer{}, 0, 1), open(t, s, pstest.Trainer{Rank: 1}, 0, 1), open(t, s, pstest.Trainer{Rank: 2}, 0, 1)
	for _, l := range []*pstest.Line{stays, lost, gone} {
		_, err := stepOver(l, 0, 1, 2)
		all(t, err)
	}
	_, err := s.Freeze(g)
	all(t, err)
	_, err = stepOver(gone, 1, 1, 2) // Freeze stops nobody
	all(t, err)
	early := open(t, s, pstest.Trainer{Rank: 1, Generation: g + 1}, 0, 1) // before its generation begins here
	all(t, early.Data(0, []int{0}, pstest.Filled(2, 1)), early.Get(0))
	all(t, s.Resume(g+1, 0, []*rpc.Member{{Rank: 0, Since: g}, {Rank: 1, Since: g + 1}}))
	for _, l := range []*pstest.Line{lost, gone} {
		if h, err := l.ReadHead(); !errors.Is(err, fault.Unavailable) {
			t.Errorf("the connection of trainer %d, which is gone, is told %+v, %v", l.Trainer.Rank, h, err)
		}
	}
	if got, err := early.Params(0); err != nil || got[0].Float32s()[1] != -5 {
		t.Errorf("the next process reads %v, %v", got, err)
	}
	if got, err := stepOver(stays, 1, 1, 2); err != nil || got[1] != -6 {
		t.Errorf("who stays reads %v, %v", got, err)
	}
	again := open(t, s, pstest.Trainer{Rank: 2}, 2, 1)
	if _, err := stepOver(again, 2, 100, 2); !errors.Is(err, fault.Superseded) {
		t.Errorf("who is gone and comes back is told %v", err)
	}
	if r, err := s.OpenData(t.Context(), &rpc.OpenDataRequest{Id: pstest.Trainer{Rank: 1}.ID(0)}); !errors.Is(err, fault.Superseded) {
		t.Errorf("an earlier process of a rank gets %v, %v", r, err)
	}
	if got, err := stepOver(stays, 2, 1, 2); err != nil || got[1] != -7 {
		t.Errorf("who stays reads %v, %v", got, err)
	}
}

// Frames that no async trainer sends end their connection with the reason.
func TestHostileAsyncFrames(t *testing.T) {
	v := pstest.Filled(4, 1)
	for name, c := range map[string]struct {
		do   func(l *pstest.Line) error
		kind fault.Kind
	}{
		"an old step":                {func(l *pstest.Line) error { return l.Data(0, []int{0}, v) }, fault.Stale},
		"an old declaration":         {func(l *pstest.Line) error { return l.Declare(0, 1, 1) }, fault.InvalidArgument},
		"a declaration without data": {func(l *pstest.Line) error { return l.Declare(2, 1, 1) }, fault.InvalidArgument},
		"another generation":         {func(l *pstest.Line) error { l.Trainer.Generation = g + 1; return l.Get(1) }, fault.Foreign},
		"another rank":               {func(l *pstest.Line) error { l.Trainer.Rank = 1; return l.Get(1) }, fault.Foreign},
		"a request with a body": {func(l *pstest.Line) error {
			return l.WriteMessage(l.Head(dataplane.Get, 1), &rpc.BarrierRequest{Rows: 1})
		}, fault.Corrupt},
		"data twice": {func(l *pstest.Line) error { return errors.Join(l.Data(2, []int{0}, v), l.Data(2, []int{0}, v)) }, fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := pstest.WithData(t, pstest.Config(2))
			cfg.Index = 1 // it keeps no ledger
			s := pstest.Start(t, cfg, pstest.SGD(1, false, 1, 4))
			l := open(t, s, pstest.Trainer{}, 0, 1)
			for step := range uint64(2) {
				_, err := stepOver(l, step, 1, 4)
				all(t, err)
			}
			all(t, c.do(l))
			if h, err := l.ReadHead(); !errors.Is(err, c.kind) {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}

// A trainer asks for the parameters before its first step: as they are before a round of a sync job, for which it waits, or as they are now.
func TestGetOverData(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for way, carrier := range ways {
			t.Run(fmt.Sprintf("%s, sync %v", way, sync), func(t *testing.T) {
				s := pstest.Start(t, pstest.WithData(t, pstest.Config(2)), pstest.SGD(0, sync, 1, 4))
				a, b := open(t, s, pstest.Trainer{Carrier: carrier}, 0, 1), open(t, s, pstest.Trainer{Rank: 1, Carrier: carrier}, 0, 1)
				now := a.Head(dataplane.Get, 3)
				now.Flags = dataplane.AnyVersion
				all(t, a.WriteMessage(now, nil), values(a, 3, 0))
				if !sync {
					_, err := stepOver(b, 0, 1, 4)
					all(t, err, a.WriteMessage(now, nil), values(a, 3, -1))
					return
				}
				all(t, a.Get(0), values(a, 0, 0), a.Contribute(0, 1, 4), b.Contribute(0, 3, 4), a.Declare(0, 1, 1))
				all(t, a.Get(1))
				untilMissing(t, s, "trainer 1") // the next connection ends this one: what the server has not read by then is lost
				again := open(t, s, pstest.Trainer{Carrier: carrier}, 0, 1)
				all(t, again.Get(1))
				untilMissing(t, s, "trainer 1")
				all(t, b.Declare(0, 1, 1), values(again, 1, -2), values(b, 1, -2))
			})
		}
	}
}
