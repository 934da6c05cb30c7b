package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// trainOn trains m on a job of processes and returns the values that it saves. Every role must have ended with status 0.
func trainOn(t *testing.T, e *remote.Executor, m testkit.Model, run executor.TrainOptions,
	started func(id string)) (executor.Summary, *job.JobStatus) {
	t.Helper()
	j, err := e.Submit(bounded(t), m.Program, run)
	if err != nil {
		t.Fatal(err)
	}
	if started != nil {
		started(j.ID)
	}
	summary, err := j.Follow(bounded(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	status, err := e.Client().Status(bounded(t), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.State != job.State_SUCCEEDED || r.ExitCode != 0 {
			t.Errorf("%v %d: %v, exit code %d", r.Role, r.Index, r.State, r.ExitCode)
		}
	}
	return summary, status
}

// mustEqualReference compares what a job of some trainers has saved with what the reference computes.
func mustEqualReference(t *testing.T, m testkit.Model, trainers int32, run executor.TrainOptions) {
	t.Helper()
	want, err := reference.New(m.Program, int(trainers))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	saved := run.Save
	run.Save = ""
	if _, err := want.Train(bounded(t), m.Program, run, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}
