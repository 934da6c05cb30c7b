package pserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// push makes a trainer push a step, as far as so many of its actions go: it sends each contribution, waits until all are applied, and enters the step in the
// ledger.
func (p *pair) push(t testing.TB, generation uint64, rank uint32, step uint64, actions int) {
	t.Helper()
	a := pstest.Trainer{Client: p.Client, Rank: rank, Generation: generation}
	for i, v := range p.shareOf(rank, step) {
		if i >= actions {
			return
		}
		if _, err := a.Send(t.Context(), step, fmt.Sprintf("w%d@GRAD", i), v); err != nil {
			t.Fatal(err)
		}
	}
	if actions > len(p.sizes) {
		if _, _, err := a.Get(t.Context(), step, "w0", p.sizes[0]); err != nil {
			t.Fatal(err)
		}
	}
	if actions > len(p.sizes)+1 {
		if err := p.declare(t.Context(), generation, rank, step); err != nil {
			t.Fatal(err)
		}
	}
}

// startAsyncPair starts a server of an async job whose updates depend on their order.
func startAsyncPair(t testing.TB, sizes ...int64) *pair {
	return startPairOf(t, func() *pstest.Program { return pstest.Momentum(0, false, 0.5, sizes...) }, sizes...)
}

// pushed returns the parameters after so many steps of two trainers in turn, without any loss.
func pushed(t testing.TB, steps uint64, sizes ...int64) []byte {
	p := startAsyncPair(t, sizes...)
	for step := range steps {
		for rank := range uint32(2) {
			p.push(t, g, rank, step, len(sizes)+2)
		}
	}
	return p.values(t, g, 0)
}

// At whatever point of a step the server of an async job is lost, its trainer sends the step again to the standby, and nothing of it is applied twice or lost,
// neither a contribution nor a learning-rate block: the parameters have the bits of the job that was not disturbed, and the ledger has each record once.
func TestStandbyOfAsyncServerProperty(t *testing.T) {
	const steps = 5
	sizes := []int64{3, 2}
	want := pushed(t, steps, sizes...)
	rapid.Check(t, func(r *rapid.T) {
		p := startAsyncPair(t, sizes...)
		p.follow(t)
		lost := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 2*steps-1), 0, 3, rapid.ID).Draw(r, "lost in")
		for i := range uint64(2 * steps) {
			step, rank := i/2, uint32(i%2)
			if slices.Contains(lost, i) {
				p.inStep(t)
				p.push(t, g, rank, step, rapid.IntRange(0, len(sizes)+2).Draw(r, "actions"))
				if err := p.takeOver(t, 0); err != nil {
					t.Fatal(err)
				}
				p.follow(t)
			}
			p.push(t, g, rank, step, len(sizes)+2)
		}
		if !bytes.Equal(p.values(t, g, 0), want) {
			r.Error("the parameters differ from those without a loss")
		}
		if records, again := p.records(t); records != 2*steps || again != 0 {
			r.Errorf("the ledger has %d records and %d more than once", records, again)
		}
	})
}

// A standby catches up while trainers push, in portions that are larger than is sent at once, and has then the bits of its server.
func TestStandbyOfAsyncServerCatchesUp(t *testing.T) {
	sizes := []int64{3, beyondAPortion(), 7}
	const steps = 10
	want := pushed(t, steps, sizes...)
	p := startAsyncPair(t, sizes...)
	for step := range uint64(steps) {
		switch step {
		case 2, 6:
			p.follow(t)
		case 4, 8:
			p.inStep(t)
			if err := p.takeOver(t, 0); err != nil {
				t.Fatal(err)
			}
		}
		for rank := range uint32(2) {
			p.push(t, g, rank, step, len(sizes)+2)
		}
	}
	if !bytes.Equal(p.values(t, g, 0), want) {
		t.Error("the parameters differ from those without a loss")
	}
}

// A pusher is a trainer that pushes ones over a data connection, to whichever process is the server.
type pusher struct {
	rank    uint32
	server  *atomic.Pointer[pstest.Server]
	receive int // parameters that it gets; without any it is told that its contribution is taken
	line    *pstest.Line
	steps   uint64
}

// again does something on a connection, and again on another one when that ends, until it is done.
func (u *pusher) again(t *testing.T, do func(*pstest.Line) error) (err error) {
	for t.Context().Err() == nil && !t.Failed() {
		if u.line == nil {
			of := pstest.Trainer{Client: u.server.Load().Client, Rank: u.rank}
			send, receive := pstest.Names(2)
			if u.line, err = of.Open(t.Context(), u.steps, send, receive[:u.receive], nil); err != nil {
				u.line = nil
				continue
			}
		}
		if err = do(u.line); err == nil {
			return nil
		}
		u.line.Close()
		u.line = nil
	}
	return err
}

// push pushes a step and enters it in the ledger.
func (u *pusher) push(t *testing.T, sizes []int64) error {
	err := u.again(t, func(l *pstest.Line) error {
		if u.receive > 0 {
			_, err := stepOver(l, u.steps, 1, sizes...)
			return err
		}
		return l.Contribute(u.steps, 1, sizes...)
	})
	if err != nil {
		return err
	}
	record := int64(u.rank)<<40 + int64(u.steps)
	m := &rpc.BarrierRequest{Rows: 1, Variables: 2, Records: []*rpc.RecordRange{{From: record, To: record + 1}}}
	err = u.again(t, func(l *pstest.Line) error {
		return errors.Join(l.WriteMessage(l.Head(dataplane.Declare, u.steps), m), l.Answer(dataplane.Ack, u.steps))
	})
	u.steps++
	return err
}

// Standbys take over among trainers that push at the same time: each contribution is applied once, and each record is in the ledger once.
func TestStandbyOfAsyncServerAmongPushes(t *testing.T) {
	sizes := []int64{5, 3}
	p := startPairOf(t, func() *pstest.Program { return pstest.SGD(0, false, 1, sizes...) }, sizes...)
	var server atomic.Pointer[pstest.Server]
	server.Store(p.Server)
	var pushes atomic.Int64
	var over atomic.Bool
	trainers := []*pusher{{rank: 0, server: &server, receive: 2}, {rank: 1, server: &server}}
	var group sync.WaitGroup
	for _, u := range trainers {
		group.Go(func() {
			for !over.Load() {
				if err := u.push(t, sizes); err != nil {
					t.Error(err)
					return
				}
				pushes.Add(1)
			}
		})
	}
	for range 4 {
		p.follow(t)
		p.inStep(t)
		for now := pushes.Load(); pushes.Load() < now+20 && !t.Failed(); {
			runtime.Gosched()
		}
		if err := p.takeOver(t, 0); err != nil {
			t.Error(err)
			break
		}
		server.Store(p.Server)
	}
	over.Store(true)
	group.Wait()
	total := int64(trainers[0].steps + trainers[1].steps)
	for i, n := range sizes {
		v, _, err := (pstest.Trainer{Client: p.Client}).Get(t.Context(), trainers[0].steps, fmt.Sprintf("w%d", i), n)
		if err != nil {
			t.Fatal(err)
		}
		if x := v.Float32s(); slices.Min(x) != -float32(total) || slices.Max(x) != -float32(total) {
			t.Errorf("after %d pushes w%d is %v", total, i, x)
		}
	}
	if records, again := p.records(t); records != total || again != 0 {
		t.Errorf("after %d pushes the ledger has %d records and %d more than once", total, records, again)
	}
}

// What bounds how far trainers are apart is known to the standby: who waits for whom goes on after it has taken over.
func TestPaceAfterAStandbyOfAsyncServer(t *testing.T) {
	p := startPairOf(t, func() *pstest.Program { return pstest.SGD(0, false, 1, 4) }, 4)
	p.follow(t)
	p.inStep(t)
	message := uint64(0)
	ask := func(ctx context.Context, rank uint32, rests bool) error {
		message++
		_, err := p.Client.Pace(ctx, &rpc.PaceRequest{Id: (pstest.Trainer{Rank: rank}).ID(message), Lead: 1, Rests: rests})
		return wire.FromStatus("", err)
	}
	for rank := range uint32(2) { // both are counted
		all(t, ask(t.Context(), rank, false))
	}
	p.push(t, g, 0, 0, 3)
	p.push(t, g, 0, 1, 3)
	all(t, p.takeOver(t, 0))
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() { asked <- ask(ctx, 0, false) }()
	untilWaits(t, p.Server, "a push, because trainer 0 is 2 pushes ahead, and may be 1")
	cancel()
	if err := <-asked; !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
	all(t, ask(t.Context(), 1, true), ask(t.Context(), 0, false)) // who rests holds up nobody
}
