package gradcheck

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// ranges checks what the loops of op promise (see ops.Loop): that ranges in any order, of different parts, give the bits of the whole, and that each
// range reads and writes nothing but what its iterations own.
func ranges(t *trace, op *program.Op) error {
	whole := t.copyFor(op)
	if err := whole.Run(context.Background(), op); err != nil {
		return err
	}
	for _, workers := range []int{1, 2} {
		if err := rangesOf(t, op, whole, workers); err != nil {
			return fmt.Errorf("%d workers: %w", workers, err)
		}
	}
	return nil
}

func rangesOf(t *trace, op *program.Op, whole *Interpreter, workers int) error {
	m := t.copyFor(op)
	m.Env.Workers = workers
	_, loops, err := m.bind(op)
	if err != nil {
		return err
	}
	for at, l := range loops {
		for _, from := range []int{0, l.N / 2, l.N - 1} {
			if from < 0 || from >= l.N {
				continue
			}
			if err := backwards(t, op, whole, workers, at, from); err != nil {
				return fmt.Errorf("loop %d cut at %d of %d: %w", at, from, l.N, err)
			}
			if l.Apart {
				continue
			}
			if err := alone(t, op, whole, workers, at, from); err != nil {
				return fmt.Errorf("iteration %d of %d of loop %d: %w", from, l.N, at, err)
			}
		}
	}
	return nil
}

// before binds op in a fresh interpreter, runs the loops before one of them, and returns that one and those behind it.
func before(t *trace, op *program.Op, workers, at int) (*Interpreter, []ops.Loop, error) {
	m := t.copyFor(op)
	m.Env.Workers = workers
	_, loops, err := m.bind(op)
	if err != nil {
		return nil, nil, err
	}
	return m, loops[at:], runAll(loops[:at])
}

func runAll(loops []ops.Loop) error {
	for _, l := range loops {
		if l.N == 0 {
			continue
		}
		if err := l.Run(0, 0, l.N); err != nil {
			return err
		}
	}
	return nil
}

// backwards runs the later iterations of a loop before the earlier ones, and then the loops behind it.
func backwards(t *trace, op *program.Op, whole *Interpreter, workers, at, from int) error {
	m, loops, err := before(t, op, workers, at)
	if err != nil {
		return err
	}
	l := loops[0]
	if err := l.Run(workers-1, from, l.N); err != nil {
		return err
	}
	if from > 0 {
		if err := l.Run(0, 0, from); err != nil {
			return err
		}
	}
	if err := runAll(loops[1:]); err != nil {
		return err
	}
	for _, name := range op.OutputNames() {
		if err := sameBits(m.Vars[name], whole.Vars[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
