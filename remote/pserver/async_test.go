package pserver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/remote/internal/rig"
)

// journal is what the blocks of an async program write down.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

// An async trainer reads what it wrote, each gradient sees its contributions in the order in which they were acknowledged, the learning rate
// ticks once per step of a trainer before the step counts, and the server ends with the last trainer.
func TestAsync(t *testing.T) {
	const trainers, steps = 3, 12
	p := rig.SGD(0, false, 1, 2, 3)
	var ticks journal
	order := [2]journal{}
	p.Service.LRDecay = 9
	p.Blocks[9] = func(_ context.Context, step ops.Step) error {
		ticks.add("%d of %d", step.Round, step.Lane)
		return nil
	}
	for i := range order {
		update := p.Blocks[p.Service.Optimize[i]]
		p.Blocks[p.Service.Optimize[i]] = func(ctx context.Context, step ops.Step) error {
			ticks.mu.Lock()
			if !slices.Contains(ticks.entries, fmt.Sprintf("%d of %d", step.Round, step.Lane)) {
				t.Errorf("step %d of lane %d is applied before its tick", step.Round, step.Lane)
			}
			ticks.mu.Unlock()
			order[i].add("%d of %d", step.Round, step.Lane)
			return update(ctx, step)
		}
	}
	s := rig.Start(t, rig.Config(trainers), p)
	err := rig.Each(trainers, func(rank int) error {
		trainer := rig.Trainer{Client: s.Client, Rank: uint32(rank)}
		for step := range uint64(steps) {
			sent := rig.Each(4, func(i int) error { // each of the two twice, at the same time
				_, err := trainer.Send(t.Context(), step, fmt.Sprintf("w%d@GRAD", i%2), rig.Filled(int64(2+i%2), 1))
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
	checkOrder(t, ticks.entries, trainers, steps)
	if n := refusals(t, s)["duplicate message"]; n != 2*trainers*steps {
		t.Errorf("%d duplicates, want %d", n, 2*trainers*steps)
	}
}

// checkOrder checks that every step of every trainer is there once, a trainer's in order.
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
	p := rig.SGD(0, false, 1, 2, 2)
	p.Service.Optimize = p.Service.Optimize[:1]
	p.Service.Grads[1].Block = 1
	p.Service.States = []comm.Contribution{{Name: "mean", Block: comm.NoBlock, Merge: ops.MergeMean}}
	p.Variables["mean"] = rig.Vector(1)
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
	s := rig.Start(t, rig.Config(2), p)
	a, b := rig.Trainer{Client: s.Client}, rig.Trainer{Client: s.Client, Rank: 1}
	send := func(trainer rig.Trainer, step uint64, name string, n int64, x float32) {
		t.Helper()
		if _, err := trainer.Send(t.Context(), step, name, rig.Filled(n, x)); err != nil {
			t.Fatal(err)
		}
	}
	send(a, 0, "w0@GRAD", 2, 2)
	send(b, 0, "w1@GRAD", 2, 3)
	send(b, 0, "w0@GRAD", 2, 3)
	send(a, 0, "w1@GRAD", 2, 2)
	send(a, 0, "mean", 1, 5)
	send(a, 1, "w0@GRAD", 2, 7) // a step whose rest never comes
	send(a, 2, "w0@GRAD", 2, 1)
	send(a, 2, "w1@GRAD", 2, 1)
	send(a, 3, "w1@GRAD", 2, 7) // nor this one's
	for _, trainer := range []rig.Trainer{a, b} {
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
