package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/internal/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Trainers that send, declare, receive and complete see every round's values, also those without rows.
func TestCommSync(t *testing.T) {
	sizes := []int64{3, 70_000, 1, 600_000}
	list := servers(t, 2, 3, true, sizes...)
	err := rig.Each(3, func(rank int) error {
		ctx, c, m := t.Context(), commOf(rank, true, list...), newModel(2, sizes...)
		c.Want(initial)
		if err := errors.Join(m.recv(ctx, c), m.check(0)); err != nil {
			return err
		}
		for round := range uint64(4) {
			step := ops.Step{Round: round, Rows: int64(1 + rank)}
			if rank == 1 {
				step.Rows = 0
			}
			c.Begin(step, 0, []dataset.Range{{From: 1, To: 2}})
			m.fill(4 * float32(rank)) // the mean of 0 of one row and 8 of three is 6
			if step.Rows > 0 {
				if err := m.send(ctx, c); err != nil {
					return err
				}
			}
			if err := errors.Join(c.SendBarrier(ctx), m.recv(ctx, c), m.check(-6*float32(round+1))); err != nil {
				return err
			}
		}
		return c.Complete(ctx)
	})
	for _, s := range list {
		err = errors.Join(err, s.Wait())
	}
	if err != nil {
		t.Error(err)
	}
}

// An async trainer reads at least what it wrote, although no barrier stands between, and what it wrote takes long to arrive.
func TestCommAsync(t *testing.T) {
	const last = 2_000_000
	for trainers := 1; trainers <= 2; trainers++ {
		list := servers(t, 2, trainers, false, 5, last+1)
		err := rig.Each(trainers, func(rank int) error {
			ctx, c, m := t.Context(), commOf(rank, false, list...), newModel(2, 5, last+1)
			c.Want(initial)
			if err := m.recv(ctx, c); err != nil {
				return err
			}
			for step := range uint64(3) {
				c.Begin(ops.Step{Round: step, Lane: uint64(rank), Rows: 2}, 0, nil)
				m.fill(1)
				if err := errors.Join(m.send(ctx, c), m.recv(ctx, c)); err != nil {
					return err
				}
				if got := m.params[1][1].Float32s()[last]; got > -float32(step+1) {
					return fmt.Errorf("trainer %d reads %v after its step %d", rank, got, step)
				}
			}
			return c.Complete(ctx)
		})
		if err != nil {
			t.Fatalf("%d trainers: %v", trainers, err)
		}
		for _, s := range list {
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a failed step left behind ends when it is drained, and with its context, though the server never answers and more calls are queued than run.
func TestCommDrain(t *testing.T) {
	silent := rig.New(t, rig.Config(1)) // it has no program
	c, m := commOf(0, true, silent), newModel(1, slices.Repeat([]int64{10}, 3*maxCalls)...)
	c.Begin(ops.Step{Rows: 1}, 0, nil)
	if err := m.send(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Drain()
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.send(ctx, c); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.SendBarrier(ctx); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
	c.Drain()
	c.Drain()
}
