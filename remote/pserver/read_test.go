package pserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// whole checks that a vector is of one piece: all of its elements are what one update left.
func whole(v []float32) error {
	for i, x := range v {
		if x != v[0] {
			return fmt.Errorf("torn: element 0 is %v, element %d is %v", v[0], i, x)
		}
	}
	return nil
}

// Whoever reads while updates run sees values of one version only, in both modes.
func TestReadersNeverSeeTornValues(t *testing.T) {
	const n, steps = 20_000, 40
	for _, sync := range []bool{true, false} {
		s := rig.Start(t, rig.Config(3), rig.SGD(0, sync, 1, n))
		stop := make(chan struct{})
		read := func(rank uint32) error {
			reader := rig.Trainer{Client: s.Client, Rank: rank}
			for last := float32(1); ; {
				w, _, err := reader.GetAs(t.Context(), &rpc.GetRequest{Id: rig.Identity.Of(rank, 0, 0), Name: "w0", AnyVersion: true}, n)
				if err == nil {
					err = whole(w.Float32s())
				}
				if err == nil && w.Float32s()[0] > last {
					err = fmt.Errorf("went back from %v to %v", last, w.Float32s()[0])
				}
				if err != nil {
					return err
				}
				last = w.Float32s()[0]
				select {
				case <-stop:
					return nil
				default:
				}
			}
		}
		train := func() error {
			defer close(stop)
			trainer := rig.Trainer{Client: s.Client}
			for step := range uint64(steps) {
				if _, err := trainer.Send(t.Context(), step, "w0@GRAD", rig.Filled(n, 1)); err != nil {
					return err
				}
				if sync {
					for rank := range uint32(3) {
						rows, sent := int64(0), 0
						if rank == 0 {
							rows, sent = 1, 1
						}
						if err := (rig.Trainer{Client: s.Client, Rank: rank}).Barrier(t.Context(), step, rows, sent); err != nil {
							return err
						}
					}
				}
				w, _, err := trainer.Get(t.Context(), step+1, "w0", n)
				if err != nil {
					return err
				}
				if err := whole(w.Float32s()); err != nil || w.Float32s()[0] != -float32(step+1) {
					return fmt.Errorf("step %d: %v %v", step, w.Float32s()[0], err)
				}
			}
			return nil
		}
		if err := rig.Each(3, func(i int) error {
			if i == 0 {
				return train()
			}
			return read(uint32(i))
		}); err != nil {
			t.Errorf("sync %v: %v", sync, err)
		}
	}
}

// A trainer waits for the version that it asks for, and a final value waits for the completion of all others.
func TestReadersWait(t *testing.T) {
	for _, sync := range []bool{true, false} {
		release := make(chan struct{})
		p := rig.SGD(0, sync, 1, 2)
		update := p.Blocks[1]
		p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
			<-release
			return update(ctx, step)
		}
		s := rig.Start(t, rig.Config(2), p)
		a, b := rig.Trainer{Client: s.Client}, rig.Trainer{Client: s.Client, Rank: 1}
		got := make(chan string, 2)
		show := func(w []float32, err error) {
			got <- fmt.Sprint(w, err)
		}
		if _, err := a.Send(t.Context(), 0, "w0@GRAD", rig.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		if sync {
			for rank, trainer := range []rig.Trainer{a, b} {
				if err := trainer.Barrier(t.Context(), 0, int64(1-rank), 1-rank); err != nil {
					t.Fatal(err)
				}
			}
		}
		go func() {
			w, _, err := a.Get(t.Context(), 1, "w0", 2)
			show(w.Float32s(), err)
		}()
		close(release)
		if text := <-got; text != "[-1 -1] <nil>" {
			t.Errorf("sync %v: version 1 is %s", sync, text)
		}
		go func() {
			w, _, err := a.GetAs(t.Context(), &rpc.GetRequest{Id: rig.Identity.Of(0, 0, 0), Name: "w0", Final: true}, 2)
			show(w.Float32s(), err)
		}()
		if _, err := b.Send(t.Context(), 1, "w0@GRAD", rig.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		want := "[-2 -2] <nil>"
		if sync {
			for rank, trainer := range []rig.Trainer{a, b} {
				if err := trainer.Barrier(t.Context(), 1, int64(rank), rank); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != want {
			t.Errorf("sync %v: the final value is %s, want %s", sync, text, want)
		}
	}
}
