package remote_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// The law of calls from the callback: what evaluates or saves sees the state after the step, bit for bit as on one machine or the oracle of as many
// trainers. Calls that change the state are refused. None waits for the end of Train.
func TestCallsFromTheCallback(t *testing.T) {
	whole, divided := testkit.NewContract(t, t.TempDir(), true), testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	for name, c := range map[string]struct {
		contract *testkit.Contract
		spec     *remote.JobSpec
		seeds    []uint64
	}{
		"one by one": {whole, &remote.JobSpec{Trainers: 1, Pservers: 1}, []uint64{0, 1}},
		"two by two": {divided, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}, []uint64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, seed := range c.seeds {
				oracle := oracleOf(t, c.contract, c.spec.Trainers)
				if err := c.contract.TrainWithCalls(bounded(t), seed, 15, executorOf(t, l, c.spec), oracle, t.TempDir); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				oracle.Close()
			}
		})
	}
}

// An evaluation whose ops update moving statistics changes the state for nobody, not even for calls from its callback. It computes what one machine does.
func TestCallsFromTheCallbackOfAnEvaluation(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), true)
	l := listener(t)
	for name, spec := range map[string]*remote.JobSpec{"one by one": {Trainers: 1, Pservers: 1}, "two by two": {Trainers: 2, Pservers: 2, MinBlockSize: 4}} {
		saved, got, err := c.EvaluateWithCalls(bounded(t), executorOf(t, l, spec), t.TempDir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		local := executor.New()
		want, err := c.EvaluateFrom(bounded(t), saved, local, t.TempDir)
		if err != nil || !slices.EqualFunc(got, want, testkit.Same) {
			t.Errorf("%s: %d values, want the same %d; %v", name, len(got), len(want), err)
		}
		local.Close()
	}
}

// A job may be ahead of the callback. What the callback saves is then the state of its step, or of one at most so many steps later, also when the data
// has ended.
func TestSaveOfAJobThatIsAhead(t *testing.T) {
	const ahead = 2
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	states := map[uint64]string{}
	want := oracleOf(t, c, 2)
	defer want.Close()
	run := executor.TrainOptions{Data: c.Data, Passes: 2}
	if _, err := want.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		states[s.Step+1] = t.TempDir()
		return want.Save(bounded(t), states[s.Step+1], c.Program)
	}); err != nil {
		t.Fatal(err)
	}
	e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	run.Ahead = ahead
	if _, err := e.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		saved := t.TempDir()
		if err := e.Save(bounded(t), saved, c.Program); err != nil {
			return err
		}
		now, _, err := executor.ReadProgress(saved)
		if err != nil || now.Steps <= s.Step || now.Steps > s.Step+1+ahead {
			return fmt.Errorf("%+v is saved in step %d: %w", now, s.Step, err)
		}
		mustBeSaved(t, saved, states[now.Steps], c)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A job that does not wait for the callback has no state to read. It says so at once.
func TestCallsFromACallbackThatNobodyWaitsFor(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	l := listener(t)
	for name, job := range map[string]struct {
		mode  job.Mode
		ahead int
	}{"async": {job.Mode_ASYNC, 0}, "no bound": {job.Mode_SYNC, -1}} {
		e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1, Mode: job.mode, RecordsPerTask: 8})
		if _, err := e.Train(bounded(t), c.Program, executor.TrainOptions{Data: c.Data, Ahead: job.ahead}, func(executor.StepResult) error {
			if err := e.Save(bounded(t), t.TempDir(), c.Program); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "Ahead") {
				return fmt.Errorf("Save: %w", err)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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

// What the callback saves is right also when the coordinator or a trainer is lost meanwhile. When parameters are lost, the state after the step is gone:
// Save says so, and the callback is given the steps of the next attempt.
func TestSaveFromTheCallbackOfAJobThatIsStruck(t *testing.T) {
	t.Parallel()
	c := testkit.NewContract(t, t.TempDir(), false)
	r := newRig(t)
	e := executorOf(t, r.listener(), shortLived())
	want := oracleOf(t, c, 2)
	defer want.Close()
	states := map[uint64]string{}
	run := executor.TrainOptions{Data: c.Data, Passes: 2}
	if _, err := want.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		states[s.Step] = t.TempDir()
		return want.Save(bounded(t), states[s.Step], c.Program)
	}); err != nil {
		t.Fatal(err)
	}
	strikes := map[uint64]string{3: "coordinator", 5: "trainer-1", 8: "pserver-0"}
	lost := 0
	_, err := e.Train(bounded(t), c.Program, run, func(s executor.StepResult) error {
		role := strikes[s.Step]
		if role != "" {
			delete(strikes, s.Step)
			r.signal(role, syscall.SIGKILL)
		}
		saved := t.TempDir()
		err := e.Save(bounded(t), saved, c.Program)
		if role == "pserver-0" && errors.Is(err, fault.LostMember) {
			lost++
			return nil
		}
		if err == nil {
			mustBeSaved(t, saved, states[s.Step], c)
		}
		return err
	})
	if err != nil || lost != 1 {
		t.Errorf("%v; %d calls have lost their state", err, lost)
	}
}
