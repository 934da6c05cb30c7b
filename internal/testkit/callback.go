package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TrainWithCalls trains steps, and makes calls from the callback of Train at random steps. Calls that change the state must be refused. Calls that read
// must see what oracle has, which is fed the same batches one by one: the state after the step of the callback. dir returns new directories.
func (c *Contract) TrainWithCalls(ctx context.Context, seed uint64, steps int, subject, oracle executor.Executor, dir func() string) error {
	f := &followed{Contract: c, subject: subject, oracle: oracle.(localOracle)}
	random := rand.New(rand.NewPCG(seed, 13))
	calls := []func() error{
		func() error { return f.refused(ctx, dir()) },
		func() error { return f.same(ctx, f.Forward, f.Evaluate[random.IntN(f.PerPass)]) },
		func() error { return f.save(ctx, dir()) },
		func() error { // from other goroutines, which the callback waits for
			ended := make(chan error, 2)
			go func() { _, err := subject.Run(ctx, f.Forward, f.Evaluate[1], f.Loss); ended <- err }()
			go func() { ended <- subject.Save(ctx, dir(), f.Program) }()
			return errors.Join(<-ended, <-ended)
		},
	}
	f.inCallback = func() error {
		for _, i := range random.Perm(len(calls))[:random.IntN(len(calls)+1)] {
			if err := calls[i](); err != nil {
				return fmt.Errorf("call %d from the callback of step %d: %w", i, f.steps-1, err)
			}
		}
		return nil
	}
	if err := f.train(ctx, executor.TrainOptions{Passes: contractPasses}, steps, true); err != nil {
		return err
	}
	return f.save(ctx, dir())
}

// refused makes the calls that the callback of Train must not make.
func (f *followed) refused(ctx context.Context, dir string) error {
	_, run := f.subject.Run(ctx, f.Program, f.Batches[0], f.Loss)
	_, train := f.subject.Train(ctx, f.Program, executor.TrainOptions{Data: f.Data}, nil)
	_, evaluate := f.subject.Train(ctx, f.Forward, executor.TrainOptions{Data: f.Data}, nil)
	_, load := f.subject.Load(ctx, dir, f.Program, executor.LoadOptions{})
	for what, err := range map[string]error{"Run": run, "Train": train, "Train of an evaluation": evaluate, "Load": load} {
		if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "from the callback of Train") || !strings.Contains(err.Error(), "ErrStop") {
			return fmt.Errorf("%s is not refused as a call from the callback: %w", what, err)
		}
	}
	return nil
}

// CloseInCallback closes an executor from the callback of Train, of which it must be the end.
func (c *Contract) CloseInCallback(ctx context.Context, subject executor.Executor, ends error) error {
	told := 0
	_, err := subject.Train(ctx, c.Program, executor.TrainOptions{Data: c.Data, Passes: 2}, func(executor.StepResult) error {
		if told++; told < 3 {
			return nil
		}
		return errors.Join(subject.Close(), ends)
	})
	if !errors.Is(err, fault.Canceled) || told != 3 {
		return fmt.Errorf("the call of Train ends with %w after %d steps", err, told)
	}
	if _, err := subject.Run(ctx, c.Forward, c.Batches[0], c.Loss); err == nil {
		return errors.New("a step runs after Close")
	}
	return subject.Close()
}

// EvaluateWithCalls trains a pass, and then evaluates the program with batch normalization that is not made for test, which would change moving
// statistics. Calls from the callback, and after the evaluation, must see the state as it was before. It returns the directory of that state, and the
// values that the steps of the evaluation have fetched, which change from step to step. dir returns new directories.
func (c *Contract) EvaluateWithCalls(ctx context.Context, subject executor.Executor, dir func() string) (saved string, fetched []*tensor.Tensor, err error) {
	if _, err := subject.Train(ctx, c.Program, executor.TrainOptions{Data: c.Data, Passes: 1}, nil); err != nil {
		return "", nil, err
	}
	saved = dir()
	if err := subject.Save(ctx, saved, c.Program); err != nil {
		return "", nil, err
	}
	fetched, err = c.evaluateFrom(ctx, saved, subject, dir)
	return saved, fetched, err
}

// EvaluateFrom is the same with a state that was saved.
func (c *Contract) EvaluateFrom(ctx context.Context, saved string, subject executor.Executor, dir func() string) ([]*tensor.Tensor, error) {
	if _, err := subject.Load(ctx, saved, c.Program, executor.LoadOptions{}); err != nil {
		return nil, err
	}
	return c.evaluateFrom(ctx, saved, subject, dir)
}

func (c *Contract) evaluateFrom(ctx context.Context, saved string, subject executor.Executor, dir func() string) (fetched []*tensor.Tensor, err error) {
	at := slices.IndexFunc(c.Forward.Global().Ops, func(op *program.Op) bool { return op.Type == "batch_norm" })
	mean := c.Forward.Global().Ops[at].In("Mean")
	want, err := subject.Run(ctx, c.Forward, c.Batches[0], c.Loss, mean)
	if err != nil {
		return nil, err
	}
	unchanged := func() error {
		again := dir()
		if err := subject.Save(ctx, again, c.Program); err != nil {
			return err
		}
		a, b := executor.NewScope(), executor.NewScope()
		if err := errors.Join(executor.LoadPersistables(a, again, c.Program), executor.LoadPersistables(b, saved, c.Program)); err != nil {
			return err
		}
		got, err := subject.Run(ctx, c.Forward, c.Batches[0], c.Loss, mean)
		if err == nil && (!Same(got[0], want[0]) || !Same(got[1], want[1])) {
			err = fmt.Errorf("a fed step has loss %v and mean %v, want %v and %v", Show(got[0]), Show(got[1]), Show(want[0]), Show(want[1]))
		}
		return errors.Join(err, Difference(Persistables(a, c.Program), Persistables(b, c.Program)))
	}
	run := executor.TrainOptions{Data: c.Data, Passes: 2, Fetch: []string{c.Loss, mean}}
	_, err = subject.Train(ctx, c.Forward, run, func(s executor.StepResult) error {
		if err := unchanged(); err != nil {
			return fmt.Errorf("from the callback of step %d: %w", s.Step, err)
		}
		if n := len(fetched); n > 0 && Same(fetched[n-1], s.Fetched[1]) {
			return fmt.Errorf("step %d does not go on with the moving mean of the step before", s.Step)
		}
		fetched = append(fetched, s.Fetched[0].Clone(), s.Fetched[1].Clone())
		return nil
	})
	if err == nil {
		err = unchanged()
	}
	return fetched, err
}
