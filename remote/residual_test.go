package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// Checkpoints have no residuals. A job that goes on from one computes what the reference computes whose residuals become 0 at that step, and that is not what
// the job computes that was not interrupted.
func TestResumeBeginsWithoutResiduals(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Momentum(0.05, 0.9))
	data, dir := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	spec := func() *remote.JobSpec {
		return &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, CompressGradients: "topk:0.2:4"}
	}
	passes := 0 // of the first job, when it has a checkpoint after its first step
	saves := spec()
	saves.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 3, Keep: 100}
	_, err := executorOf(t, l, saves).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000}, func(r executor.StepResult) error {
		if passes = r.Pass + 2; len(kept(t, dir)) < 1 {
			return nil
		}
		return executor.ErrStop
	})
	if err != nil {
		t.Fatal(err)
	}
	from, resumes, save := kept(t, dir)[0], spec(), t.TempDir()
	resumes.Resume = dir + "@" + from.Name
	if _, err := executorOf(t, l, resumes).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: save}, nil); err != nil {
		t.Fatal(err)
	}
	for _, begins := range []bool{true, false} {
		want, err := oracleFor(m.Program, resumes)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		want.Regroup(func(round uint64) bool { return begins && round == from.Steps })
		if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); (err == nil) != begins {
			t.Errorf("from step %d, residuals that begin with 0: %t: %v", from.Steps, begins, err)
		}
	}
}
