package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// journal is a list of the blocks that have run.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

// An async trainer reads a value with its own updates. Each gradient gets contributions in the order in which they were acknowledged. The
// learning-rate block runs once for each step of a trainer, before the step is applied. The server ends with the last trainer.
func TestAsync(t *testing.T) {
	const trainers, steps = 3, 12
	p := pstest.SGD(0, false, 1, 2, 3)
	var rates journal
	order := [2]journal{}
	p.Service.LRDecay = 9
	p.Blocks[9] = func(_ context.Context, step ops.Step) error {
		rates.add("%d of %d", step.Round, step.Lane)
		return nil
	}
	for i := range order {
		update := p.Blocks[p.Service.Optimize[i]]
		p.Blocks[p.Service.Optimize[i]] = func(ctx context.Context, step ops.Step) error {
			rates.mu.Lock()
			if !slices.Contains(rates.entries, fmt.Sprintf("%d of %d", step.Round, step.Lane)) {
				t.Errorf("step %d of lane %d is applied before its learning-rate block", step.Round, step.Lane)
			}
			rates.mu.Unlock()
			order[i].add("%d of %d", step.Round, step.Lane)
			return update(ctx, step)
		}
	}
	s := pstest.Start(t, pstest.Config(trainers), p)
	err := pstest.Parallel(trainers, func(rank int) error {
		trainer := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
		for step := range uint64(steps) {
			sent := pstest.Parallel(4, func(i int) error { // each of the two twice, at the same time
				_, err := trainer.Send(t.Context(), step, fmt.Sprintf("w%d@GRAD", i%2), pstest.Filled(int64(2+i%2), 1))
				return err
			})
			if sent != nil {
				return sent
			}
			w, _, err := trainer.Get(t.Context(), 0, "w0", 2)
			if err != nil {
				return err
			}
			if x := w.Float32s()[0]; x > -float32(step+1) || x < -trainers*steps {
				return fmt.Errorf("trainer %d reads %v after %d steps of its own", rank, x, step+1)
			}
		}
		return trainer.Complete(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range order {
		if got := p.Variables[fmt.Sprintf("w%d", i)].Float32s()[1]; got != -trainers*steps {
			t.Errorf("w%d is %v, want %v", i, got, -trainers*steps)
		}
		checkOrder(t, order[i].entries, trainers, steps)
	}
	checkOrder(t, rates.entries, trainers, steps)
	if n := refusals(t, s)["duplicate message"]; n != 2*trainers*steps {
		t.Errorf("%d duplicates, want %d", n, 2*trainers*steps)
	}
}

// checkOrder checks that every step of every trainer is there once, and the steps of each trainer in order.
func checkOrder(t *testing.T, entries []string, trainers, steps int) {
	if len(entries) != trainers*steps {
		t.Errorf("%d entries, want %d", len(entries), trainers*steps)
	}
	for lane := range trainers {
		at := -1
		for step := range steps {
			i := slices.Index(entries, fmt.Sprintf("%d of %d", step, lane))
			if i <= at {
				t.Errorf("step %d of lane %d is at %d, the one before at %d", step, lane, i, at)
			}
			at = i
		}
	}
}

// Gradients that one block reads are applied together, and a state takes the last value that was sent.
func TestAsyncUpdateOfSeveralGradients(t *testing.T) {
	p := pstest.SGD(0, false, 1, 2, 2)
	p.Service.Optimize = p.Service.Optimize[:1]
	p.Service.Grads[1].Block = 1
	p.Service.States = []comm.Contribution{{Name: "mean", Block: comm.NoBlock, Merge: ops.MergeMean}}
	p.Variables["mean"] = pstest.Vector(1)
	runs := 0
	p.Blocks[1] = func(context.Context, ops.Step) error {
		runs++
		w, g, h := p.Variables["w0"].Float32s(), p.Variables["w0@GRAD"].Float32s(), p.Variables["w1@GRAD"].Float32s()
		if g[0] != h[0] {
			t.Errorf("gradients %v and %v are not of one step", g[0], h[0])
		}
		w[0] -= g[0] * h[1]
		return nil
	}
	s := pstest.Start(t, pstest.Config(2), p)
	a, b := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}
	send := func(trainer pstest.Trainer, step uint64, name string, n int64, x float32) {
		t.Helper()
		if _, err := trainer.Send(t.Context(), step, name, pstest.Filled(n, x)); err != nil {
			t.Fatal(err)
		}
	}
	send(a, 0, "w0@GRAD", 2, 2)
	send(b, 0, "w1@GRAD", 2, 3)
	send(b, 0, "w0@GRAD", 2, 3)
	send(a, 0, "w1@GRAD", 2, 2)
	send(a, 0, "mean", 1, 5)
	send(a, 1, "w0@GRAD", 2, 7) // the rest of this step never comes
	send(a, 2, "w0@GRAD", 2, 1)
	send(a, 2, "w1@GRAD", 2, 1)
	send(a, 3, "w1@GRAD", 2, 7) // nor does the rest of this one
	for _, trainer := range []pstest.Trainer{a, b} {
		if err := trainer.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if w, mean := p.Variables["w0"].Float32s()[0], p.Variables["mean"].Float32s()[0]; runs != 3 || w != -4-9-1 || mean != 5 {
		t.Errorf("%d runs made %v and %v", runs, w, mean)
	}
}

// A trainer that is lost and started again begins at step 0, after all that its rank has sent before is applied. A part of a step is dropped. What
// the lost process still sends changes nothing. The other trainers go on meanwhile.
func TestAsyncTrainerStartedAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*pstest.Patience)
	defer cancel()
	p := pstest.SGD(0, false, 1, 2, 2)
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
	s := pstest.Start(t, pstest.Config(2), p)
	a, lost := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}
	send := func(trainer pstest.Trainer, round uint64, x float32, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := trainer.Send(ctx, round, name, pstest.Filled(2, x)); err != nil {
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
	again := pstest.Trainer{Client: s.Client, Rank: 1, Generation: g + 1}
	told := make(chan error, 1)
	go func() {
		_, err := again.Send(ctx, 0, "w0@GRAD", pstest.Filled(2, 5))
		if err == nil {
			_, err = again.Send(ctx, 0, "w1@GRAD", pstest.Filled(2, 5))
		}
		told <- err
	}()
	untilWaits(t, s, "queued contributions of trainer 1")
	for _, late := range []uint64{0, 2, 9} {
		if _, err := lost.Send(ctx, late, "w0@GRAD", pstest.Filled(2, 1e6)); !errors.Is(err, fault.Stale) {
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
	for _, trainer := range []pstest.Trainer{a, again} {
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
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, false, 1, 2))
	a := pstest.Trainer{Client: s.Client}
	step := func(from, to int64) *rpc.Declared {
		return &rpc.Declared{Rows: to - from, Pass: 1, Records: []*rpc.RecordRange{{From: from, To: to}}}
	}
	if err := a.Declare(ctx, 0, step(0, 4), 1); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a step that was not sent: %v", err)
	}
	for round := range uint64(3) {
		if _, err := a.Send(ctx, round, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
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
	l, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job, Pass: 1, Ranges: true})
	if err != nil || len(l.Passes) != 1 || l.Passes[0].Pass != 1 || l.Passes[0].Records != 10 || l.Passes[0].Again != 2 ||
		len(l.Passes[0].Committed) != 1 || l.Passes[0].Committed[0].To != 10 {
		t.Errorf("the ledger says %v, %v", l, err)
	}
	if _, err := wire.Ledger(ctx, "pserver 0", s.Client, &rpc.LedgerRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}

	cfg := pstest.Config(1)
	cfg.Index, cfg.Servers = 1, 2
	other := pstest.Start(t, cfg, pstest.SGD(1, false, 1, 2))
	if err := (pstest.Trainer{Client: other.Client}).Barrier(ctx, 0, 0, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a barrier to another server: %v", err)
	}
	if _, err := wire.Ledger(ctx, "pserver 1", other.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job}); !errors.Is(err, fault.NotFound) {
		t.Errorf("the ledger of another server: %v", err)
	}
}

// A trainer is lost after it has sent a part of a step. When the members change, the part is dropped, also when it is just being taken. Neither the
// next process of the rank nor the end of the job waits for the rest.
func TestPartsOfThoseWhoAreGone(t *testing.T) {
	for name, taken := range map[string]bool{"taken before": true, "taken meanwhile": false} {
		for who, members := range map[string][]*rpc.Member{"gone": {{Rank: 0, Since: g}}, "started again": {{Rank: 0, Since: g}, {Rank: 1, Since: g + 1}}} {
			t.Run(name+", "+who, func(t *testing.T) {
				p := pstest.SGD(0, false, 1, 2, 2)
				p.Service.Optimize = p.Service.Optimize[:1] // one block reads both gradients
				p.Service.Grads[1].Block = 1
				p.Service.LRDecay = 9
				running, ran := make(chan struct{}), make(chan struct{})
				p.Blocks[9] = func(ctx context.Context, step ops.Step) error {
					if step.Round != 3 {
						return nil
					}
					close(running)
					select {
					case <-ran:
					case <-ctx.Done():
					}
					return nil
				}
				s := pstest.Start(t, pstest.Config(2), p)
				lost, sent := pstest.Trainer{Client: s.Client, Rank: 1}, make(chan error, 1)
				go func() {
					_, err := lost.Send(t.Context(), 3, "w0@GRAD", pstest.Filled(2, 1))
					sent <- err
				}()
				<-running
				if taken {
					close(ran)
					if err := <-sent; err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Freeze(g); err != nil {
					t.Fatal(err)
				}
				if err := s.Resume(g+1, 0, members); err != nil {
					t.Fatal(err)
				}
				if !taken {
					close(ran)
					<-sent // whether it succeeds depends on who was first
				}
				for _, m := range slices.Backward(members) { // nobody has completed when the next process sends
					a := pstest.Trainer{Client: s.Client, Rank: m.Rank, Generation: m.Since}
					for _, name := range []string{"w0@GRAD", "w1@GRAD"} {
						if _, err := a.Send(t.Context(), 0, name, pstest.Filled(2, 1)); err != nil {
							t.Fatal(err)
						}
					}
					if err := a.Complete(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Wait(); err != nil {
					t.Errorf("all have completed, and the server ends with %v", err)
				}
			})
		}
	}
}

// A call that is cut while the learning-rate block runs does not stop the block, and the server goes on.
func TestLearningRateOutlivesItsCaller(t *testing.T) {
	p := pstest.SGD(0, false, 1, 2)
	running, cut := make(chan struct{}), make(chan struct{})
	p.Service.LRDecay = 9
	p.Blocks[9] = func(ctx context.Context, step ops.Step) error {
		if step.Round == 0 {
			close(running)
			<-cut
		}
		return ctx.Err()
	}
	s := pstest.Start(t, pstest.Config(1), p)
	trainer := pstest.Trainer{Client: s.Client}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() { _, err := trainer.Send(ctx, 0, "w0@GRAD", pstest.Filled(2, 1)); told <- err }()
	<-running
	if n := len(refusals(t, s)); n != 0 { // the server answers while the block runs
		t.Errorf("%d kinds refused", n)
	}
	cancel()
	if err := <-told; err == nil {
		t.Error("the call that was cut has succeeded")
	}
	close(cut)
	if duplicate, err := trainer.Send(t.Context(), 0, "w0@GRAD", pstest.Filled(2, 1)); err != nil || !duplicate {
		t.Errorf("the next try: duplicate %v, %v", duplicate, err)
	}
	if w, _, err := trainer.Get(t.Context(), 0, "w0", 2); err != nil || w.Float32s()[0] != -1 {
		t.Error(w, err)
	}
}

// The learning-rate block runs alone: no update of the step begins before it has ended, and it does not begin while an update runs.
func TestLearningRateRunsAlone(t *testing.T) {
	p := pstest.SGD(0, false, 1, 2, 2)
	p.Service.LRDecay = 9
	running, ran, updating, updated, other := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var early, during atomic.Bool
	p.Blocks[9] = func(_ context.Context, step ops.Step) error {
		if step.Round == 0 {
			close(running)
			<-ran
		} else {
			during.Store(true)
		}
		return nil
	}
	for i, block := range p.Service.Optimize {
		p.Blocks[block] = func(_ context.Context, step ops.Step) error {
			early.Store(true)
			switch {
			case step.Round > 0:
			case i == 0:
				close(updating)
				<-updated
			default:
				close(other)
			}
			return nil
		}
	}
	s := pstest.Start(t, pstest.Config(1), p)
	a, sent := pstest.Trainer{Client: s.Client}, make(chan error, 3)
	send := func(name string, step uint64) {
		_, err := a.Send(t.Context(), step, name, pstest.Filled(2, 1))
		sent <- err
	}
	meanwhile := func() { // whoever does not wait has the time to go on
		for range 300 {
			refusals(t, s)
		}
	}
	go send("w0@GRAD", 0)
	<-running
	go send("w1@GRAD", 0)
	meanwhile()
	if early.Load() {
		t.Error("an update of step 0 runs while its learning-rate block runs")
	}
	close(ran)
	<-updating
	<-other // step 0 is stale behind step 1
	go send("w0@GRAD", 1)
	meanwhile()
	if during.Load() {
		t.Error("the learning-rate block runs while an update does")
	}
	close(updated)
	for range 3 {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}
