package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// Every step is shown with its learning rate, that of one machine, however often the number of trainers changes: also the last of a generation, which
// they report before they know what only servers hold.
func TestLearningRatesWhileScaled(t *testing.T) {
	t.Parallel()
	var rate string
	m := testkit.Reading(t, 8, optimizer.Adam(optimizer.Schedule(func(step layers.Variable) layers.Variable {
		v := optimizer.Exponential(0.05, 3, 0.99, false)(step)
		rate = v.Name()
		return v
	})))
	run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 64), Passes: 30, Fetch: []string{rate}}
	var want []float32
	local := executor.New()
	defer local.Close()
	if _, err := local.Train(bounded(t), m.Program, run, func(r executor.StepResult) error {
		want = append(want, testkit.Loss(t, r.Fetched[0]))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l := newRig(t).listener()
	client, err := remote.Dial(bounded(t), l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e := executorOf(t, l, &remote.JobSpec{Trainers: 1, TrainersMax: 3, Pservers: 2, Mode: job.Mode_SYNC, MinBlockSize: 4, RecordsPerTask: 8})
	j, err := e.Submit(bounded(t), m.Program, run)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	if _, err := j.Follow(bounded(t), func(r executor.StepResult) error {
		if got := testkit.Loss(t, r.Fetched[0]); r.Step != next || got != want[r.Step] {
			t.Errorf("step %d with the rate %v, want step %d, and for that step %v", r.Step, got, next, want[r.Step])
		}
		if next = r.Step + 1; r.Step%8 > 0 || r.Step+8 > uint64(len(want)) {
			return nil
		}
		_, err := client.Scale(bounded(t), j.ID, 1+int(r.Step/8)%3)
		return err
	}); err != nil || next != uint64(len(want)) {
		t.Errorf("%d of %d steps: %v", next, len(want), err)
	}
}
