package pserver_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// A server of an async job goes back to a checkpoint while an update is applied and others wait in its queue. They are dropped: only what the checkpoint
// has, and what is trained after it, is in the parameters and in the ledger. A new server is given the same state.
func TestRestoreUpdates(t *testing.T) {
	ctx := t.Context()
	p := pstest.SGD(0, false, 1, 4)
	block := p.Service.Optimize[0]
	update, begun, goOn := p.Blocks[block], make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := false // read by the goroutine of the only updater, written while it does nothing
	p.Blocks[block] = func(ctx context.Context, step ops.Step) error {
		if slow {
			once.Do(func() { close(begun) })
			<-goOn
		}
		return update(ctx, step)
	}
	cfg := pstest.Config(2)
	old := pstest.Start(t, cfg, p)
	c := cutter{old, t.TempDir()}
	for step := range uint64(3) {
		if err := stepAlone(ctx, 0, step, old); err != nil {
			t.Fatal(err)
		}
	}
	name := checkpoint.NewName("job", 3)
	answers, err := cutUpdates(ctx, c.dir, name, old)
	if err != nil || answers[0].Steps != 3 {
		t.Fatal(answers, err)
	}
	store, err := checkpoint.Open(ctx, c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := &state.Checkpoint{Mode: job.Mode_ASYNC, Progress: &job.Progress{Steps: 3}, Shards: []*job.Shard{answers[0].Shard}, Ledger: answers[0].Ledger}
	if err := store.Publish(ctx, name, m); err != nil {
		t.Fatal(err)
	}
	slow = true
	for rank := range uint32(2) { // one update is applied, one waits
		if _, err := (pstest.Trainer{Client: old.Client, Rank: rank}).Send(ctx, uint64(3-3*rank), "w0@GRAD", pstest.Filled(4, 1)); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	cfg.History = 1
	fresh := pstest.New(t, cfg)
	fresh.Serve(pstest.SGD(0, false, 1, 4))
	if err := fresh.Begin(2); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
		t.Errorf("a server without the state of the job begins a generation: %v", err)
	}
	restored := make(chan error, 1)
	go func() {
		_, err := c.restore(ctx, 10, g, 3, 1, name)
		restored <- err
	}()
	for !old.Restoring() { // the update ends after that
		if _, err := old.Client.Status(ctx, &rpc.StatusRequest{Job: "job"}); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	if err := <-restored; err != nil {
		t.Fatal(err)
	}
	if _, err := (cutter{fresh, c.dir}).restore(ctx, 10, g, 3, 1, name); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*pstest.Server{old, fresh} {
		if err := stepAlone(ctx, 0, 4, s); !errors.Is(err, fault.Superseded) {
			t.Errorf("a trainer of the generation before is told %v", err)
		}
		if err := s.Resume(g+1, 0, []*rpc.Member{{Rank: 1, Since: g + 1}}); err != nil {
			t.Fatal(err)
		}
		a := pstest.Trainer{Client: s.Client, Rank: 1, Generation: g + 1}
		if _, err := a.Send(ctx, 3, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
			t.Fatal(err)
		}
		if w, _, err := a.Get(ctx, 0, "w0", 4); err != nil || w.Float32s()[3] != -4 {
			t.Errorf("after 3 steps of the checkpoint and one more the value is %v, %v", w, err)
		}
		records := []*rpc.RecordRange{{From: 3, To: 4}}
		if err := a.Declare(ctx, 3, &rpc.Declared{Rows: 1, Records: records}, 1); err != nil {
			t.Fatal(err)
		}
		own := pstest.Identity
		own.Generation = id.Generation(g + 1)
		h, err := s.Client.Hold(ctx, &rpc.HoldRequest{Id: own.Of(0, 0, 0), Hold: "next"})
		if err != nil || h.Steps != 4 {
			t.Errorf("the ledger has %v, %v", h, err)
		}
		l, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: "job"})
		if err != nil || len(l.Passes) != 1 || l.Passes[0].Records != 4 || l.Passes[0].Again != 0 {
			t.Errorf("the ledger says %v, %v", l, err)
		}
	}
}
