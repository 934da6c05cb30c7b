package remote_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// A job whose number of pservers changes while it runs computes what it would have computed, step by step, and no step twice.
func TestScaleServers(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	schedule := map[uint64]int{7: 4, 12: 1, 19: 3, 24: 2}
	next, passes := uint64(0), 0
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if s.Step != next || s.Attempt != 0 || s.Repeated {
			t.Errorf("step %d of attempt %d, repeated %v; want step %d", s.Step, s.Attempt, s.Repeated, next)
		}
		next++
		if n := schedule[s.Step]; n > 0 {
			jobs, err := e.Client().Jobs(bounded(t))
			if err != nil {
				return err
			}
			if _, err := remote.ScaleServers(bounded(t), e.Client(), jobs[0].Job, n); err != nil {
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

// Whatever is killed while the number of pservers changes: the job goes on with the old number or the new one, and ends with the bits of the undisturbed job.
func TestRolesDieWhileServersChange(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"coordinator", "pserver-0", "pserver-2", "trainer-1"} {
		for _, to := range []int{1, 3} {
			if to == 1 && role == "pserver-2" {
				continue
			}
			t.Run(fmt.Sprintf("%s, to %d", role, to), func(t *testing.T) { killWhileScaling(t, role, to) })
		}
	}
}

func killWhileScaling(t *testing.T, role string, to int) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	r := newRig(t)
	spec := shortLived()
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
