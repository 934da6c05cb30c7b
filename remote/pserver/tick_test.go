package pserver_test

import (
	"context"
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
