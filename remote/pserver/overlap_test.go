package pserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/internal/rig"
)

// Updates of different parameters run at the same time: here each waits for the other.
func TestUpdatesOverlap(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync=%v", sync), func(t *testing.T) {
			p := rig.SGD(0, sync, 1, 2, 2)
			begun := []chan struct{}{make(chan struct{}), make(chan struct{})}
			for i, block := range p.Service.Optimize {
				update := p.Blocks[block]
				p.Blocks[block] = func(ctx context.Context, step ops.Step) error {
					close(begun[i])
					select {
					case <-begun[1-i]:
						return update(ctx, step)
					case <-ctx.Done():
						return fault.New(fault.Internal, "the other update does not begin before the end of this one")
					}
				}
			}
			s := rig.Start(t, rig.Config(1), p)
			a := rig.Trainer{Client: s.Client}
			for i := range begun {
				if _, err := a.Send(t.Context(), 0, fmt.Sprintf("w%d@GRAD", i), rig.Filled(2, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Barrier(t.Context(), 0, 1, 2); err != nil {
				t.Fatal(err)
			}
			version := uint64(1) // of the rounds
			if !sync {
				version = 2 // of the updates
			}
			for i := range begun {
				if w, got, err := a.Get(t.Context(), 1, fmt.Sprintf("w%d", i), 2); err != nil || w.Float32s()[0] != -1 || got != version {
					t.Errorf("w%d is %v in version %d, %v; want -1 in version %d", i, w, got, err, version)
				}
			}
		})
	}
}
