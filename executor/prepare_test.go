package executor_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/optimizer"
)

func TestPreparedStepsAllocateNothing(t *testing.T) {
	m := fixture.FitALine(t, optimizer.Momentum(0.01, 0.9))
	for _, workers := range []int{1, 2} {
		l := executor.New(executor.WithWorkers(workers))
		defer l.Close()
		feed := line(1, 20)
		p, err := l.Prepare(t.Context(), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if n := testing.AllocsPerRun(50, func() { _, err = p.Run(ctx, feed) }); n != 0 || err != nil {
			t.Errorf("%d workers: %v allocations per step, %v", workers, n, err)
		}
	}
}

func TestPreparedEqualsRun(t *testing.T) {
	m := fixture.FitALine(t, optimizer.Momentum(0.01, 0.9))
	a, b := executor.New(), executor.New()
	defer a.Close()
	defer b.Close()
	p, err := b.Prepare(t.Context(), m.Program, line(0, 6), m.Loss)
	if err != nil {
		t.Fatal(err)
	}
	for step := range uint64(4) {
		want, err := a.Run(t.Context(), m.Program, line(step, 6), m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Run(t.Context(), line(step, 6))
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Float32s()[0] != want[0].Float32s()[0] {
			t.Errorf("step %d: %v, want %v", step, got[0].Float32s(), want[0].Float32s())
		}
	}
	if a.Step().Round != 3 || b.Step().Round != 3 {
		t.Errorf("rounds %d and %d, want 3", a.Step().Round, b.Step().Round)
	}
	if _, err := p.Run(t.Context(), line(1, 7)); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("another batch size: %v", err)
	}
}
