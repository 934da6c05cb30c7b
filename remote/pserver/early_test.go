package pserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/edl-go/edl/remote/internal/rig"
)

// A trainer whose data end before those of the others stops nobody: they go on without it, nothing that it sent is lost, and the server ends by
// itself when the last one has completed.
func TestTrainersThatFinishEarly(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync=%v", sync), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*rig.Patience)
			defer cancel()
			p := rig.SGD(0, sync, 1, 2)
			s := rig.Start(t, rig.Config(3), p)
			steps := []uint64{1, 5, 3} // that each has data for
			if err := rig.Each(len(steps), func(rank int) error {
				trainer := rig.Trainer{Client: s.Client, Rank: uint32(rank)}
				for step := range steps[rank] {
					if _, err := trainer.Send(ctx, step, "w0@GRAD", rig.Filled(2, 1)); err != nil {
						return err
					}
					if err := trainer.Barrier(ctx, step, 1, 1); err != nil {
						return err
					}
					if _, _, err := trainer.Get(ctx, step+1, "w0", 2); err != nil {
						return fmt.Errorf("trainer %d in step %d: %w", rank, step, err)
					}
				}
				return trainer.Complete(ctx)
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(); err != nil {
				t.Fatalf("all trainers have completed, and the server ends with %v", err)
			}
			want := float32(-5) // rounds, each with the mean of those who were in it
			if !sync {
				want = -9 // updates
			}
			if w := p.Variables["w0"].Float32s()[1]; w != want {
				t.Errorf("the parameter ends at %v, want %v", w, want)
			}
		})
	}
}
