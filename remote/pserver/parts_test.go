package pserver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A part of a step, whose trainer is lost before it sends the rest, is given up: when the members change, and also when that part is just being
// taken. Neither the next process of the rank nor the end of the job waits for it.
func TestPartsOfThoseWhoAreGone(t *testing.T) {
	for name, taken := range map[string]bool{"taken before": true, "taken meanwhile": false} {
		for who, members := range map[string][]*rpc.Member{"gone": {{Rank: 0, Since: g}}, "started again": {{Rank: 0, Since: g}, {Rank: 1, Since: g + 1}}} {
			t.Run(name+", "+who, func(t *testing.T) {
				p := rig.SGD(0, false, 1, 2, 2)
				p.Service.Optimize = p.Service.Optimize[:1] // one block reads both gradients
				p.Service.Grads[1].Block = 1
				p.Service.LRDecay = 9
				ticking, ticked := make(chan struct{}), make(chan struct{})
				p.Blocks[9] = func(ctx context.Context, step ops.Step) error {
					if step.Round != 3 {
						return nil
					}
					close(ticking)
					select {
					case <-ticked:
					case <-ctx.Done():
					}
					return nil
				}
				s := rig.Start(t, rig.Config(2), p)
				lost, sent := rig.Trainer{Client: s.Client, Rank: 1}, make(chan error, 1)
				go func() {
					_, err := lost.Send(t.Context(), 3, "w0@GRAD", rig.Filled(2, 1))
					sent <- err
				}()
				<-ticking
				if taken {
					close(ticked)
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
					close(ticked)
					<-sent // it may be told either way
				}
				for _, m := range slices.Backward(members) { // nobody has completed when the next process sends
					a := rig.Trainer{Client: s.Client, Rank: m.Rank, Generation: m.Since}
					for _, name := range []string{"w0@GRAD", "w1@GRAD"} {
						if _, err := a.Send(t.Context(), 0, name, rig.Filled(2, 1)); err != nil {
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
