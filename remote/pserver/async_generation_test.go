package pserver_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// A trainer that is lost and started again begins at step 0, after all that it sent before has been applied; a part of a step is given up, and what
// the lost process still sends changes nothing. The others go on meanwhile.
func TestAsyncTrainerStartedAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*rig.Patience)
	defer cancel()
	p := rig.SGD(0, false, 1, 2, 2)
	p.Service.Optimize = p.Service.Optimize[:1] // w0 and w1 are updated by one block, which reads both gradients
	p.Service.Grads[1].Block = 1
	release, applied := make(chan struct{}), []float32{}
	p.Blocks[1] = func(ctx context.Context, _ ops.Step) error {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		applied = append(applied, p.Variables["w0@GRAD"].Float32s()[0])
		return nil
	}
	s := rig.Start(t, rig.Config(2), p)
	a, lost := rig.Trainer{Client: s.Client}, rig.Trainer{Client: s.Client, Rank: 1}
	send := func(trainer rig.Trainer, round uint64, x float32, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := trainer.Send(ctx, round, name, rig.Filled(2, x)); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(lost, 0, 1, "w0@GRAD", "w1@GRAD")
	send(lost, 1, 2, "w0@GRAD", "w1@GRAD")
	send(lost, 2, 3, "w1@GRAD") // the rest never comes
	if state, err := s.Freeze(g); err != nil || state.Generation != g {
		t.Fatal(state, err)
	}
	send(a, 0, 4, "w0@GRAD", "w1@GRAD") // Freeze stops nobody
	members := []*rpc.Member{{Rank: 0, Since: g}, {Rank: 1, Since: g + 1}}
	if err := s.Resume(g+1, 0, members); err != nil {
		t.Fatal(err)
	}
	again := rig.Trainer{Client: s.Client, Rank: 1, Generation: g + 1}
	told := make(chan error, 1)
	go func() {
		_, err := again.Send(ctx, 0, "w0@GRAD", rig.Filled(2, 5))
		if err == nil {
			_, err = again.Send(ctx, 0, "w1@GRAD", rig.Filled(2, 5))
		}
		told <- err
	}()
	untilWaits(t, s, "contributions of trainer 1 in the queues")
	for _, late := range []uint64{0, 2, 9} {
		if _, err := lost.Send(ctx, late, "w0@GRAD", rig.Filled(2, 1e6)); !errors.Is(err, fault.Stale) {
			t.Errorf("step %d of the lost process: %v", late, err)
		}
	}
	if err := lost.Complete(ctx); !errors.Is(err, fault.Stale) {
		t.Errorf("the completion of the lost process: %v", err)
	}
	close(release)
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	for _, trainer := range []rig.Trainer{a, again} {
		if err := trainer.Complete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := []float32{1, 2, 4, 5}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
}

// In async mode a barrier enters a step in the ledger, once, on server 0 only.
func TestAsyncLedger(t *testing.T) {
	ctx := t.Context()
	s := rig.Start(t, rig.Config(2), rig.SGD(0, false, 1, 2))
	a := rig.Trainer{Client: s.Client}
	step := func(from, to int64) *rpc.Declared {
		return &rpc.Declared{Rows: to - from, Pass: 1, Records: []*rpc.RecordRange{{From: from, To: to}}}
	}
	if err := a.Declare(ctx, 0, step(0, 4), 1); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a step that was not sent: %v", err)
	}
	for round := range uint64(3) {
		if _, err := a.Send(ctx, round, "w0@GRAD", rig.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := a.Declare(ctx, round, step(int64(3*round), int64(3*round+4)), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Declare(ctx, 0, step(50, 60), 1); !errors.Is(err, fault.Stale) {
		t.Errorf("an old step: %v", err)
	}
	if err := a.Declare(ctx, 3, step(4, 4), 1); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no records: %v", err)
	}
	l, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: rig.Identity.Job, Pass: 1, Ranges: true})
	if err != nil || len(l.Passes) != 1 || l.Passes[0].Pass != 1 || l.Passes[0].Records != 10 || l.Passes[0].Again != 2 ||
		len(l.Passes[0].Committed) != 1 || l.Passes[0].Committed[0].To != 10 {
		t.Errorf("the ledger says %v, %v", l, err)
	}
	if _, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}

	cfg := rig.Config(1)
	cfg.Index, cfg.Servers = 1, 2
	other := rig.Start(t, cfg, rig.SGD(1, false, 1, 2))
	if err := (rig.Trainer{Client: other.Client}).Barrier(ctx, 0, 0, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a barrier to another server: %v", err)
	}
	if _, err := wire.Ledger(ctx, "pserver 1", other.Client, &rpc.LedgerRequest{Job: rig.Identity.Job}); !errors.Is(err, fault.NotFound) {
		t.Errorf("the ledger of another server: %v", err)
	}
}
