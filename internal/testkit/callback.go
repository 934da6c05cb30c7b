package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
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
