package edlcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
)

// Who follows a job is told once that checkpoints fail, once that they are made again, and at the end if the last ones have failed.
func TestFollowersHearOfCheckpointsThatFail(t *testing.T) {
	good := &job.CheckpointStatus{Store: "s", Name: "x", Steps: 40, Bytes: 9}
	bad := &job.CheckpointStatus{Store: "s", Name: "x", Steps: 40, Bytes: 9, FailingSinceMs: 5000, Failure: wire.FailureOf(fault.New(fault.TooLarge, "disk full"))}
	notices := &checkpointNotices{}
	const fails = "edl: checkpoint: after 40 steps, 9 bytes, in s; fails since 1970-01-01T00:00:05Z: disk full\n"
	for _, c := range []struct {
		status *job.CheckpointStatus
		last   bool
		told   string
	}{
		{nil, false, ""}, {good, false, ""}, {bad, false, fails}, {bad, false, ""}, {bad, true, fails},
		{good, false, "edl: checkpoint: after 40 steps, 9 bytes, in s\n"}, {good, true, ""},
	} {
		var told bytes.Buffer
		notices.to = &told
		if notices.tell(c.status, 0, c.last); told.String() != c.told {
			t.Errorf("%v, last %t: told %q, want %q", c.status, c.last, &told, c.told)
		}
	}
}

// A run whose store goes away trains on, and says at its end that the last checkpoints are missing.
func TestRunTellsOfAStoreThatWentAway(t *testing.T) {
	m, data := testkit.Reading(t, 4, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), 8)
	store := filepath.Join(t.TempDir(), "store")
	e, err := remote.NewExecutor("", &remote.JobSpec{Name: "went-away", Trainers: 1, Pservers: 1, Checkpoints: &job.Checkpoints{Store: store, Rounds: 5}})
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	run := &clusterExecutor{Executor: e, notices: &told, keep: true, withdraw: func() {}}
	defer run.Close()
	fails, deadline := false, time.Now().Add(patience)
	shown := func() *job.CheckpointStatus {
		d, err := e.Client().Show(t.Context(), "went-away")
		if err != nil {
			t.Fatal(err)
		}
		return d.Queues.GetCheckpoint()
	}
	sum, err := run.Train(t.Context(), m.Program, executor.TrainOptions{Data: data, Passes: 100, Fetch: []string{m.Loss}}, func(s executor.StepResult) error {
		if s.Step == 10 {
			var err error
			for i := range 100 { // a server may make the folder anew in between
				_ = os.Rename(store, fmt.Sprint(store, i))
				if err = os.WriteFile(store, nil, 0o600); err == nil {
					break
				}
			}
			return err
		}
		for !fails && s.Step > 10 {
			if fails = shown().GetFailingSinceMs() > 0; s.Step < 150 {
				break // the job goes on after this step
			}
			if time.Now().After(deadline) {
				return fault.New(fault.Internal, "no checkpoint has failed")
			}
		}
		return nil
	})
	if err != nil || sum.Steps != 200 {
		t.Fatalf("%d steps, %v", sum.Steps, err)
	}
	if !regexp.MustCompile(`(?m)^edl: checkpoint: (after [0-9]+ steps|none).*; fails since [^ ]+: [^ ]+`).MatchString(told.String()) {
		t.Errorf("told %q", &told)
	}
}

// A run that nobody watches, as edl verify has it, has no function to call.
func TestCheckpointNoticesWithoutAWatcher(t *testing.T) {
	notices := &checkpointNotices{}
	if err := notices.watch(t.Context(), nil)(executor.StepResult{}); err != nil {
		t.Error(err)
	}
}
