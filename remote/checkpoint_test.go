package remote_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/checkpoint"
)

// kept are the complete checkpoints in a folder, the newest first.
func kept(t *testing.T, dir string) (list []checkpoint.Entry) {
	t.Helper()
	store, err := checkpoint.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	all, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e checkpoint.Entry) bool { return !e.Complete })
}

// A job that goes on from any checkpoint of another one, with another number of pservers, ends as if nothing had happened: with its accumulators, its
// schedule, its place in the data, and as many passes in all.
func TestResumeInAnotherShape(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, dir := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	passes := 0 // of the first job, when it has some checkpoints
	saves := &remote.JobSpec{Trainers: 2, Pservers: 3, MinBlockSize: 4, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 2, Keep: 100}}
	_, err := executorOf(t, l, saves).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000}, func(r executor.StepResult) error {
		if passes = r.Pass + 2; len(kept(t, dir)) < 4 {
			return nil
		}
		return executor.ErrStop
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
	train := func(spec *remote.JobSpec, passes int) (string, error) {
		save := t.TempDir()
		_, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: save}, nil)
		return save, err
	}
	list := kept(t, dir)
	for i, e := range list[:4] {
		spec := &remote.JobSpec{Trainers: 2, Pservers: int32(1 + i), MinBlockSize: 4, NoSlice: i == 1, Resume: dir + "@" + e.Name}
		what := fmt.Sprintf("from step %d with %d pservers", e.Steps, spec.Pservers)
		saved, err := train(spec, passes)
		if err != nil {
			t.Fatal(what, err)
		}
		if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	done := &remote.JobSpec{Trainers: 2, Pservers: 1, Resume: dir}
	if first := int(list[0].Steps / 5); first > 0 {
		if _, err := train(done, first); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "passes are done") {
			t.Errorf("a job of %d passes from step %d: %v", first, list[0].Steps, err)
		}
	}
	for _, bad := range []*remote.JobSpec{{Resume: dir + "@99999999"}, {Checkpoints: &job.Checkpoints{}},
		{Checkpoints: &job.Checkpoints{Store: dir}, Mode: job.Mode_ASYNC}} {
		if _, err := train(bad, 1); !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A job that loses a pserver goes back to its last checkpoint, and ends with the bits of the undisturbed job. Each record counts once.
func TestLostServerGoesBack(t *testing.T) {
	t.Parallel()
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged %t", damaged), func(t *testing.T) { loseServer(t, damaged) })
	}
}

// loseServer loses a pserver when there are two checkpoints, the newer of which may be damaged.
func loseServer(t *testing.T, damaged bool) {
	m := testkit.Reading(t, 16, optimizer.Momentum(0.05, 0.9))
	data, dir, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir(), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 2}
	killed, again, passes := uint64(0), uint64(0), 0
	_, err := executorOf(t, r.listener(), spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save},
		func(s executor.StepResult) error {
			list := kept(t, dir)
			switch {
			case s.Attempt == 0 && killed == 0 && len(list) > 1:
				killed = s.Step
				if damaged {
					if err := os.WriteFile(filepath.Join(dir, list[0].Name, "shard-1"), []byte("damaged"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r.signal("pserver-1", syscall.SIGKILL)
			case s.Attempt > 0 && again == 0:
				again = s.Step
			case s.Attempt > 0 && s.Step > killed && (s.Step+1)%5 == 0:
				passes = s.Pass + 1
				return executor.ErrStop
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if again == 0 || again > killed+1 {
		t.Errorf("after a pserver was killed at step %d, the job goes on with step %d", killed, again)
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
