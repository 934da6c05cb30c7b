package remote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/remote"
)

// A call from the callback of Train, and one from another goroutine that the callback waits for, never waits for the end of Train.
func TestCallsFromTheCallbackDoNotWait(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	_, err := e.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data}, func(s executor.StepResult) error {
		_, run := e.Run(bounded(t), c.Program, c.Batches[0])
		_, read := e.Run(bounded(t), c.Forward, c.Batches[0])
		_, train := e.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data}, nil)
		_, load := e.Load(bounded(t), t.TempDir(), c.Program, executor.LoadOptions{})
		saved := make(chan error)
		go func() { saved <- e.Save(bounded(t), t.TempDir(), c.Program) }()
		for what, err := range map[string]error{"a step": run, "a step that reads": read, "Train": train, "Load": load, "Save": <-saved} {
			if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "from the callback of Train") {
				t.Errorf("%s in step %d: %v", what, s.Step, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Close in the callback does not wait for Train, which ends the job and the executor.
func TestCloseInTheCallback(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	for _, ends := range []error{nil, executor.ErrStop} {
		if err := c.CloseInCallback(bounded(t), newExecutor(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1}), ends); err != nil {
			t.Errorf("Close, and %v: %v", ends, err)
		}
	}
}
