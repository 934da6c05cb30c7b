package executor_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// bits trains a workload for some steps and returns everything that it fetched and left behind.
func bits(t *testing.T, w workload, options ...executor.Option) map[string][]uint32 {
	t.Helper()
	m := w.model(t)
	l := executor.New(options...)
	defer l.Close()
	all := map[string][]uint32{}
	keep := func(name string, v *tensor.Tensor) {
		for _, x := range v.Float32s() {
			all[name] = append(all[name], math.Float32bits(x))
		}
	}
	for step := range 4 {
		out, err := l.Run(t.Context(), m.Program, w.feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		keep(fmt.Sprintf("loss of step %d", step), out[0])
	}
	for _, name := range l.Scope().Names() {
		v, _ := l.Scope().Find(name)
		keep(name, v)
	}
	return all
}

// Whatever a plan fuses and however many workers share it, a program computes the same bits.
func TestNeitherFusionsNorWorkersChangeABit(t *testing.T) {
	for _, w := range variants {
		t.Run(w.name, func(t *testing.T) {
			plain := bits(t, w, executor.WithoutFusion())
			if len(plain) < 3 {
				t.Fatalf("only %d variables", len(plain))
			}
			cases := map[string][]executor.Option{
				"all":                           nil,
				"2 workers":                     {executor.WithWorkers(2)},
				"3 workers, every part":         {executor.WithWorkers(3), executor.WithGrain(0)},
				"2 workers, parts, no fusion":   {executor.WithWorkers(2), executor.WithGrain(0), executor.WithoutFusion()},
				"5 workers, parts of some time": {executor.WithWorkers(5), executor.WithGrain(time.Microsecond)},
			}
			for _, f := range executor.Fusions() {
				cases["without "+string(f)] = []executor.Option{executor.WithoutFusion(f)}
			}
			for name, options := range cases {
				got := bits(t, w, options...)
				for variable, want := range plain {
					if fmt.Sprint(got[variable]) != fmt.Sprint(want) {
						t.Errorf("%s: %s differs", name, variable)
					}
				}
			}
		})
	}
}

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
