package pserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

// publish makes a checkpoint of the parts of servers at a round.
func (c cutter) publish(t *testing.T, round uint64, servers ...*pstest.Server) string {
	t.Helper()
	name := checkpoint.NewName("job", round)
	m := &state.Checkpoint{Progress: &job.Progress{Steps: round}}
	for _, s := range servers {
		a, err := cutter{s, c.dir}.ask(t.Context(), round, name)
		if err != nil || a.Past {
			t.Fatal(a, err)
		}
		m.Shards = append(m.Shards, a.Shard)
		if len(a.Ledger) > 0 {
			m.Ledger = a.Ledger
		}
	}
	store, err := checkpoint.Open(t.Context(), c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Publish(t.Context(), name, m); err != nil {
		t.Fatal(err)
	}
	return name
}

// restore asks a server to take the state of a checkpoint, as a coordinator with a fence.
func (c cutter) restore(ctx context.Context, fence id.Fence, generation, round, history uint64, name string) (*rpc.RestoreResponse, error) {
	own := pstest.Identity
	own.Generation, own.Fence = id.Generation(generation), fence
	a, err := c.server.Client.Restore(ctx, &rpc.RestoreRequest{Id: own.Of(0, id.Round(round), 0), Store: c.dir, Name: name, History: history})
	return a, wire.FromStatus("pserver 0", err)
}

// A server goes back to a checkpoint, and trains on from there as if it had not been further. So does a new server that has never trained.
func TestRestore(t *testing.T) {
	cfg := pstest.Config(1)
	old := pstest.Start(t, cfg, pstest.SGD(0, true, 1, 4))
	c := cutter{old, t.TempDir()}
	for round := range uint64(3) {
		trainRound(t, old, round)
	}
	name := c.publish(t, 3, old)
	for round := range uint64(4) {
		trainRound(t, old, 3+round)
	}
	cfg.History = 1
	fresh := pstest.New(t, cfg)
	fresh.Serve(pstest.SGD(0, true, 1, 4))
	if _, err := fresh.Freeze(g); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
		t.Errorf("a server without the state of the job answers %v", err)
	}
	for _, s := range []*pstest.Server{old, fresh} {
		c := cutter{s, c.dir}
		for range 2 { // the answer to the first was lost
			a, err := c.restore(t.Context(), 10, g, 3, 1, name)
			if err != nil || a.Records != 3 {
				t.Fatal(a, err)
			}
		}
		if f, err := s.Freeze(g); err != nil || f.Round != 3 || f.History != 1 || len(f.Applied) > 0 {
			t.Errorf("it tells %v, %v", f, err)
		}
		if _, _, err := (pstest.Trainer{Client: s.Client}).Get(t.Context(), 8, "w0", 4); !errors.Is(err, fault.Superseded) {
			t.Errorf("a trainer of the generation before is told %v", err)
		}
		if err := s.Resume(g+1, 3, pstest.Members(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.restore(t.Context(), 10, g, 3, 1, name); !errors.Is(err, fault.Stale) {
			t.Errorf("a request that comes too late is told %v", err)
		}
		a := pstest.Trainer{Client: s.Client, Generation: g + 1}
		for round := uint64(3); round < 5; round++ {
			if w, _, err := a.Get(t.Context(), round, "w0", 4); err != nil || w.Float32s()[0] != -float32(round) {
				t.Fatalf("version %d is %v, %v", round, w, err)
			}
			if _, err := a.Send(t.Context(), round, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
				t.Fatal(err)
			}
			records := []*rpc.RecordRange{{From: int64(round), To: int64(round) + 1}}
			if err := a.Declare(t.Context(), round, &rpc.Declared{Rows: 1, Records: records}, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := a.Get(t.Context(), 5, "w0", 4); err != nil {
			t.Fatal(err)
		}
		l, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: "job"})
		if err != nil || len(l.Passes) != 1 || l.Passes[0].Records != 5 || l.Passes[0].Again != 0 {
			t.Errorf("the ledger says %v, %v", l, err)
		}
	}
}

// A state that cannot be had leaves the server as it is, in a generation that has ended.
func TestRestoreRefuses(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	c := cutter{s, t.TempDir()}
	trainRound(t, s, 0)
	name := c.publish(t, 1, s)
	trainRound(t, s, 1)
	if _, err := c.restore(t.Context(), 9, g, 1, 1, name); !errors.Is(err, fault.Fenced) {
		t.Errorf("a coordinator of the past is told %v", err)
	}
	trainRound(t, s, 2)
	if _, err := c.restore(t.Context(), 10, g, 1, 0, name); !errors.Is(err, fault.Unsupported) {
		t.Errorf("no history: %v", err)
	}
	if _, err := c.restore(t.Context(), 10, g, 2, 1, name); !errors.Is(err, fault.Corrupt) {
		t.Errorf("another round: %v", err)
	}
	if _, err := c.restore(t.Context(), 10, g, 1, 1, checkpoint.NewName("job", 1)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a checkpoint that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, name, "shard-0"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.restore(t.Context(), 10, g, 1, 1, name); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a damaged checkpoint: %v", err)
	}
	if f, err := s.Freeze(g); err != nil || f.Round != 3 || f.History != 0 {
		t.Errorf("it tells %v, %v", f, err)
	}
	if err := s.Resume(g+1, 3, pstest.Members(0)); err != nil {
		t.Fatal(err)
	}
	if w, _, err := (pstest.Trainer{Client: s.Client, Generation: g + 1}).Get(t.Context(), 3, "w0", 4); err != nil || w.Float32s()[0] != -3 {
		t.Errorf("%v, %v", w, err)
	}
}

// Server 1 is lost while server 0 waits for its partial sums of a round. Server 0 gives the round up. Both train the rounds after the checkpoint again, with
// partial sums of the same numbers.
func TestRestoreDuringExchange(t *testing.T) {
	ctx := t.Context()
	servers := exchanging(t, 2, func(*pserver.Config) {}, func(int, uint64) {})
	c := cutter{servers[0], t.TempDir()}
	train := func(generation, from, to uint64) error {
		for round := from; round < to; round++ {
			err := pstest.Parallel(len(servers), func(i int) error {
				trainer := pstest.Trainer{Client: servers[i].Client, Generation: generation}
				if _, err := trainer.Send(ctx, round, "w0@GRAD", pstest.Filled(1, 1)); err != nil {
					return err
				}
				return trainer.Barrier(ctx, round, 1, 1)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := train(g, 0, 1); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if _, _, err := (pstest.Trainer{Client: s.Client}).Get(ctx, 1, "w0", 1); err != nil {
			t.Fatal(err)
		}
	}
	name := c.publish(t, 1, servers...)
	if err := train(g, 1, 4); err != nil {
		t.Fatal(err)
	}
	alone := pstest.Trainer{Client: servers[0].Client}
	if _, err := alone.Send(ctx, 4, "w0@GRAD", pstest.Filled(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := alone.Barrier(ctx, 4, 1, 1); err != nil {
		t.Fatal(err)
	}
	untilWaits(t, servers[0], "partial sums of round 4")
	for _, s := range servers {
		if _, err := (cutter{s, c.dir}).restore(ctx, 10, g, 1, 1, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		if err := s.Resume(g+1, 1, pstest.Members(0)); err != nil {
			t.Fatal(err)
		}
	}
	first := pstest.Trainer{Client: servers[1].Client, Generation: g + 1}
	if _, err := first.Send(ctx, 1, "w0@GRAD", pstest.Filled(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := first.Barrier(ctx, 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	untilWaits(t, servers[0], "round 1") // server 1 asks for its sums of round 1, not of round 3, which it had published
	if err := trainIn(ctx, servers, g+1, 1, 6); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}
