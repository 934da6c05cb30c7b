package remote_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// Trap 5: the learning rate after k steps is that of one machine after k steps, in sync and in async mode, with one and with many trainers.
func TestLearningRates(t *testing.T) {
	comparesValues(t)
	t.Parallel()
	var rate string
	schedule := optimizer.Schedule(func(step layers.Variable) layers.Variable {
		v := optimizer.Exponential(0.05, 3, 0.5, false)(step)
		rate = v.Name()
		return v
	})
	m := testkit.Reading(t, 8, optimizer.Adam(schedule))
	run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 64), Passes: 2, Fetch: []string{rate}}
	train := func(e executor.Executor, save string) (rates []float32) {
		t.Helper()
		run := run
		run.Save = save
		if _, err := e.Train(bounded(t), m.Program, run, func(r executor.StepResult) error {
			rates = append(rates, testkit.Loss(t, r.Fetched[0]))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return rates
	}
	local := executor.New()
	defer local.Close()
	wantSaved := t.TempDir()
	want := train(local, wantSaved)
	if len(want) != 16 || want[15] == want[0] {
		t.Fatalf("rates %v of 16 steps", want)
	}
	counted := testkit.Saved(t, wantSaved, m.Program)[program.LRDecayCounter]
	r := newRig(t)
	l := r.listener()
	for _, c := range []struct {
		mode     job.Mode
		trainers int32
	}{{job.Mode_SYNC, 1}, {job.Mode_SYNC, 3}, {job.Mode_ASYNC, 1}, {job.Mode_ASYNC, 3}} {
		save := t.TempDir()
		got := train(executorOf(t, l, &remote.JobSpec{Trainers: c.trainers, Pservers: 2, Mode: c.mode, MinBlockSize: 4, RecordsPerTask: 8}), save)
		if counter := testkit.Saved(t, save, m.Program)[program.LRDecayCounter]; !testkit.Same(counter, counted) {
			t.Errorf("%v with %d trainers: counter %s, want %s", c.mode, c.trainers, testkit.Show(counter), testkit.Show(counted))
		}
		if c.mode == job.Mode_ASYNC && c.trainers > 1 {
			continue // a trainer reads the rate when others may have gone on
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v with %d trainers: rates\n%v, want\n%v", c.mode, c.trainers, got, want)
		}
	}
}

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
	e := executorOf(t, l, &remote.JobSpec{Trainers: 1, TrainersMax: 3, Pservers: 2, Mode: job.Mode_SYNC, MinBlockSize: 4, RecordsPerTask: 8, MaxAhead: 1})
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
