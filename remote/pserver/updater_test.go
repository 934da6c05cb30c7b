package pserver_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A trainer whose call is cut while the learning rate ticks does not take the server with it.
func TestTickOutlivesItsCaller(t *testing.T) {
	p := rig.SGD(0, false, 1, 2)
	ticking, cut := make(chan struct{}), make(chan struct{})
	p.Service.LRDecay = 9
	p.Blocks[9] = func(ctx context.Context, step ops.Step) error {
		if step.Round == 0 {
			close(ticking)
			<-cut
		}
		return ctx.Err()
	}
	s := rig.Start(t, rig.Config(1), p)
	trainer := rig.Trainer{Client: s.Client}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() { _, err := trainer.Send(ctx, 0, "w0@GRAD", rig.Filled(2, 1)); told <- err }()
	<-ticking
	if n := len(refusals(t, s)); n != 0 { // the server answers while the block runs
		t.Errorf("%d kinds refused", n)
	}
	cancel()
	if err := <-told; err == nil {
		t.Error("the call that was cut has succeeded")
	}
	close(cut)
	if duplicate, err := trainer.Send(t.Context(), 0, "w0@GRAD", rig.Filled(2, 1)); err != nil || !duplicate {
		t.Errorf("the next attempt: duplicate %v, %v", duplicate, err)
	}
	if w, _, err := trainer.Get(t.Context(), 0, "w0", 2); err != nil || w.Float32s()[0] != -1 {
		t.Error(w, err)
	}
}

// The learning rate of a step ticks alone: no update of the step begins before it has ended, and it does not begin while an update runs.
func TestTickIsAlone(t *testing.T) {
	p := rig.SGD(0, false, 1, 2, 2)
	p.Service.LRDecay = 9
	ticking, ticked, updating, updated := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var early, during atomic.Bool
	p.Blocks[9] = func(_ context.Context, step ops.Step) error {
		if step.Round == 0 {
			close(ticking)
			<-ticked
		} else {
			during.Store(true)
		}
		return nil
	}
	for i, block := range p.Service.Optimize {
		p.Blocks[block] = func(_ context.Context, step ops.Step) error {
			early.Store(true)
			if i == 0 && step.Round == 0 {
				close(updating)
				<-updated
			}
			return nil
		}
	}
	s := rig.Start(t, rig.Config(1), p)
	a, sent := rig.Trainer{Client: s.Client}, make(chan error, 3)
	send := func(name string, step uint64) {
		_, err := a.Send(t.Context(), step, name, rig.Filled(2, 1))
		sent <- err
	}
	meanwhile := func() { // whoever does not wait has the time to go on
		for range 300 {
			refusals(t, s)
		}
	}
	go send("w0@GRAD", 0)
	<-ticking
	go send("w1@GRAD", 0)
	meanwhile()
	if early.Load() {
		t.Error("an update of step 0 runs while its learning rate ticks")
	}
	close(ticked)
	<-updating
	go send("w0@GRAD", 1)
	meanwhile()
	if during.Load() {
		t.Error("the learning rate ticks while an update runs that reads it")
	}
	close(updated)
	for range 3 {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}
