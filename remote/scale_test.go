package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// scaledTo changes the number of pservers. After another change, a pserver may still be ending: the change waits for that.
func scaledTo(ctx context.Context, c *remote.Client, id string, servers int) error {
	_, err := remote.ScaleServers(ctx, c, id, servers)
	return err
}

// A job whose number of pservers changes while it runs computes what it would have computed, step by step, and no step twice.
func TestScaleServers(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	schedule := map[uint64][]int{7: {4}, 12: {1, 3}, 24: {2}}
	next, passes := uint64(0), 0
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if s.Step != next || s.Attempt != 0 || s.Repeated {
			t.Errorf("step %d of attempt %d, repeated %v; want step %d", s.Step, s.Attempt, s.Repeated, next)
		}
		next++
		for _, n := range schedule[s.Step] {
			jobs, err := e.Client().Jobs(bounded(t))
			if err != nil {
				return err
			}
			if err := scaledTo(bounded(t), e.Client(), jobs[0].Job, n); err != nil {
				return err
			}
		}
		if passes = s.Pass + 1; s.Step > 30 && (s.Step+1)%5 == 0 {
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// A job with standbys gets them anew for each number of pservers. A pserver that is lost afterwards has one in step that takes over: no step is told twice, and the
// bits are those of the undisturbed job.
func TestScaleServersWithStandbys(t *testing.T) {
	t.Parallel()
	for _, model := range []struct {
		name string
		of   func(*testing.T) (testkit.Model, map[string][]string)
	}{{"dense", dense}, {"tables", tables}} {
		t.Run(model.name, func(t *testing.T) {
			inShort(t, model.name, "tables")
			scaleWithStandbys(t, model.of)
		})
	}
}

func scaleWithStandbys(t *testing.T, model func(*testing.T) (testkit.Model, map[string][]string)) {
	m, data := model(t)
	save := t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Standby = 1
	e := executorOf(t, r.listener(), spec)
	w := &watched{t: t, client: e.Client()}
	numbers := []int{3, 1, 2}
	next, passes, last, killed := uint64(0), 0, uint64(0), false
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if s.Step != next || s.Attempt != 0 || s.Repeated {
			t.Errorf("step %d of attempt %d, repeated %v; want step %d", s.Step, s.Attempt, s.Repeated, next)
		}
		next++
		pids, inStep := w.roles()
		switch {
		case s.Step < last+5 || !inStep:
		case len(numbers) > 0 && killed:
			if err := scaledTo(bounded(t), e.Client(), w.id, numbers[0]); err != nil {
				return err
			}
			numbers, last, killed = numbers[1:], s.Step, false
		case !killed:
			killed, last = true, s.Step
			for i := range max(1, spec.Pservers-1) {
				if err := syscall.Kill(pids[fmt.Sprintf("pserver-%d", i)], syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		case (s.Step+1)%5 == 0:
			passes = s.Pass + 1
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(m.Program, int(spec.Trainers))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// A fed job changes its number of pservers between two steps, and while one is under way. What steps fetch, and the state, are those of the undisturbed job.
func TestScaleServersOfFedJob(t *testing.T) {
	m, prediction := normed(t)
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 2})
	fetch := []string{m.Loss, prediction, "fc_0.w_0", "batch_norm_0.w_1"}
	id := ""
	var group sync.WaitGroup
	defer group.Wait()
	scale := func(n int) {
		if err := scaledTo(bounded(t), e.Client(), id, n); err != nil {
			t.Errorf("%d pservers: %v", n, err)
		}
	}
	for step := range 40 {
		switch step {
		case 5:
			scale(4)
		case 12:
			group.Go(func() { scale(1) })
		case 24:
			group.Wait()
			group.Go(func() { scale(3) })
		}
		feed := testkit.Batch(t, m.Program, uint64(step), int64(1+step%7))
		a, err := want.Run(bounded(t), m.Program, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.Run(bounded(t), m.Program, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(named(fetch, b), named(fetch, a)); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
		if id == "" {
			jobs, err := e.Client().Jobs(bounded(t))
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			id = jobs[0].Job
		}
	}
	group.Wait()
	jobs, err := e.Client().Jobs(bounded(t))
	if err != nil || len(jobs) != 1 {
		t.Errorf("the steps took the jobs %v, want one; %v", jobs, err)
	}
}

// An async job goes on from a checkpoint with another number of pservers. The parameters count what was applied to them: of each record the update of every
// pass, no more and no less; the ledger says the same.
func TestScaleServersOfAsyncJob(t *testing.T) {
	const records = 1009
	model, data := counting(t, records)
	l, save := listener(t), t.TempDir()
	spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 16, Mode: job.Mode_ASYNC, RecordsPerTask: 20}
	spec.Checkpoints = &job.Checkpoints{Store: t.TempDir(), Rounds: 1 << 30}
	e := executorOf(t, l, spec)
	run := executor.TrainOptions{Data: data, Passes: 1 << 20, Save: save} // until a step is seen that follows both changes
	numbers, seen, attempts := []int{4, 1}, 0, 0
	_, err := e.Train(bounded(t), model.Program, run, func(s executor.StepResult) error {
		attempts = max(attempts, s.Attempt)
		switch seen++; {
		case len(numbers) == 0 && attempts >= 2:
			return executor.ErrStop
		case len(numbers) == 0 || seen < 40:
			return nil
		}
		jobs, err := e.Client().Jobs(bounded(t))
		if err == nil {
			err = scaledTo(bounded(t), e.Client(), jobs[0].Job, numbers[0])
			t.Logf("at step %d to %d pservers: %v", s.Step, numbers[0], err)
		}
		numbers, seen = numbers[1:], 0
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := executor.ReadProgress(save)
	if err != nil {
		t.Fatal(err)
	}
	ledger := lastLedger(t, l)
	if len(ledger.GetPasses()) < now.Pass {
		t.Errorf("the ledger is %v, the state %+v", ledger, now)
	}
	for _, p := range ledger.GetPasses() {
		if int(p.Pass) < now.Pass && p.Records != records || p.Again != 0 {
			t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
	passes := now.Pass
	if now.Trained != "" { // the rest of the pass
		passes, run.Passes = passes+1, 1
		if _, err := e.Train(bounded(t), model.Program, run, nil); err != nil {
			t.Fatal(err)
		}
	}
	for record, n := range testkit.Saved(t, save, model.Program)["updates"].Float32s() {
		if n != float32(passes) {
			t.Fatalf("record %d was applied %v times, want %d", record, n, passes)
		}
	}
	without := &remote.JobSpec{Trainers: 1, Pservers: 1, Mode: job.Mode_ASYNC}
	j, err := executorOf(t, l, without).Submit(bounded(t), model.Program, executor.TrainOptions{Data: data, Passes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.ScaleServers(bounded(t), e.Client(), j.ID, 2); !errors.Is(err, fault.InvalidArgument) && !errors.Is(err, fault.Unavailable) {
		t.Errorf("an async job without checkpoints: %v", err)
	}
	if _, err := j.Follow(bounded(t), func(executor.StepResult) error { return nil }); err != nil {
		t.Error(err)
	}
}

// Whatever is killed while the number of pservers changes: the job goes on with the old number or the new one, and ends with the bits of the undisturbed job.
func TestRolesDieWhileServersChange(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"coordinator", "pserver-0", "pserver-2", "trainer-1"} {
		for _, to := range []int{1, 3} {
			if to == 1 && role == "pserver-2" || testing.Short() && (to == 3 || role != "pserver-0") {
				continue
			}
			t.Run(fmt.Sprintf("%s, to %d", role, to), func(t *testing.T) { killWhileScaling(t, role, to, 0) })
		}
	}
	for _, role := range []string{"coordinator", "pserver-1", "standby-0", "trainer-0"} {
		if testing.Short() && role != "pserver-1" {
			continue
		}
		t.Run(role+", with standbys", func(t *testing.T) { killWhileScaling(t, role, 3, 1) })
	}
}

func killWhileScaling(t *testing.T, role string, to int, standby int32) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Standby = standby
	if strings.HasPrefix(role, "pserver") {
		spec.Checkpoints = &job.Checkpoints{Store: t.TempDir(), Rounds: 2}
	}
	e := executorOf(t, r.listener(), spec)
	moves, passes := 0, 0
	var group sync.WaitGroup
	defer group.Wait()
	next := uint64(6) // step at which the number changes again
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if s.Step >= next && moves < 4 {
			group.Wait()
			moves++
			next = s.Step + 6
			servers := []int{2, to}[moves%2]
			jobs, err := e.Client().Jobs(bounded(t))
			if err != nil {
				return err
			}
			group.Go(func() { // it may fail, and leave the job as it was
				_, err := remote.ScaleServers(bounded(t), e.Client(), jobs[0].Job, servers)
				t.Logf("%d pservers: %v", servers, err)
			})
			group.Go(func() {
				if role != "pserver-2" || servers > 2 {
					for range 10 * moves { // into the change, at another point each time
						_, _ = e.Client().Status(bounded(t), jobs[0].Job)
					}
					_ = syscall.Kill(r.handle(role).Pid(), syscall.SIGKILL) // it may have ended
				}
			})
		}
		if passes = s.Pass + 1; moves == 4 && s.Step > next+4 && (s.Step+1)%5 == 0 {
			group.Wait()
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}
