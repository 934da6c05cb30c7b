package remote_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// reading is a program that reads 43 records in batches of 8.
func reading(t testing.TB, dropLast bool, shuffle int) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(5)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	switch {
	case shuffle > 0 && shuffle%4 == 0:
		r = layers.ShuffleGroups(r, shuffle, 4, 7)
	case shuffle > 0:
		r = layers.Shuffle(r, shuffle, 7)
	}
	v := layers.Read(layers.Batch(r, 8))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(v[0], 5, layers.Act("tanh")), 1), v[1]))
	optimizer.Momentum(optimizer.Exponential(0.05, 4, 0.9, true), 0.9).Minimize(loss)
	built := testkit.Built(t, m, loss)
	for _, op := range slices.Concat(built.Program.Global().Ops, built.Program.Startup.Global().Ops) {
		if op.Type == "create_batch_reader" {
			op.SetAttr("drop_last", dropLast)
		}
	}
	return built
}

// A state whose position lies behind the end of its pass, because files were removed since, goes on with the first batch of the next pass, and the
// pass that is over does not count: on one machine, in the oracle, and on clusters. Two calls train the same steps, end with the same values and at the
// same position, and report the same passes.
func TestPositionBehindTheEndOfItsPass(t *testing.T) {
	data := testkit.Samples(t, t.TempDir(), 43)
	l := listener(t)
	type run struct {
		passes   int
		steps    []string
		progress executor.Progress
		summary  string
	}
	for name, c := range map[string]struct {
		batch    uint64
		dropLast bool
		shuffle  int
		begins   int // pass of the first step
		steps    int // of the first call, which has two passes
	}{
		"within the pass":              {4, false, 0, 3, 2 + 6},
		"at its end":                   {6, false, 0, 4, 12},
		"behind its end":               {7, false, 0, 4, 12},
		"behind its end, shuffled":     {7, false, 20, 4, 12},
		"at its end, one large buffer": {6, false, 1000, 4, 12},
		"far behind":                   {1e12, false, 0, 4, 12},
		"far behind, shuffled":         {1e12, false, 21, 4, 12},
		"no batch has the number":      {math.MaxInt64, false, 0, 4, 12},
		"no batch has it, shuffled":    {math.MaxInt64, false, 21, 4, 12},
		"the rest is no batch":         {5, true, 0, 4, 10},
		"the rest is none, shuffled":   {5, true, 20, 4, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "at its end, one large buffer")
			t.Parallel()
			m := reading(t, c.dropLast, c.shuffle)
			state := t.TempDir()
			saveAt(t, m.Program, state, executor.Progress{Steps: 20, Pass: 3, Batch: c.batch, Reader: executor.ReaderHash(m.Program)})
			all := func(e executor.Executor) (runs []run, saved string) {
				t.Helper()
				if _, err := e.Load(bounded(t), state, m.Program, executor.LoadOptions{}); err != nil {
					t.Fatal(err)
				}
				for _, passes := range []int{2, 1} {
					r, dir := run{passes: passes}, t.TempDir()
					s, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: dir}, func(s executor.StepResult) error {
						r.steps = append(r.steps, fmt.Sprintf("step %d of pass %d: %d rows", s.Step, s.Pass, s.Rows))
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					r.summary = fmt.Sprintf("%d passes, %d steps, %d records", s.Passes, s.Steps, s.Records)
					if r.progress, _, err = executor.ReadProgress(dir); err != nil {
						t.Fatal(err)
					}
					runs, saved = append(runs, r), dir
				}
				return runs, saved
			}
			local := executor.New()
			defer local.Close()
			want, savedLocal := all(local)
			if len(want[0].steps) != c.steps || want[0].steps[0] != fmt.Sprintf("step 20 of pass %d: 8 rows", c.begins) ||
				want[0].progress.Pass != c.begins+2 || want[0].progress.Batch != 0 || want[1].progress.Pass != c.begins+3 {
				t.Errorf("local: %+v", want)
			}
			oracle := func(trainers int) executor.Executor {
				e, err := reference.New(m.Program, trainers)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			two := oracle(2)
			defer two.Close()
			wantTwo, savedTwo := all(two)
			one := oracle(1)
			defer one.Close()
			for name, e := range map[string]struct {
				executor.Executor
				want  []run
				saved string
			}{
				"oracle of one": {one, want, savedLocal},
				"oracle of two": {two, wantTwo, savedTwo},
				"one by one":    {executorOf(t, l, &remote.JobSpec{Trainers: 1, Pservers: 1}), want, savedLocal},
				"two by two":    {executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}), want, savedTwo},
			} {
				got, saved := e.want, e.saved
				if e.Executor != two {
					got, saved = all(e.Executor)
				}
				for i, r := range got {
					if !slices.Equal(r.steps, want[i].steps) || r.progress != want[i].progress || r.summary != want[i].summary {
						t.Errorf("%s, call %d: %+v\nwant %+v", name, i, r, want[i])
					}
				}
				if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Saved(t, e.saved, m.Program)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// An async job begins with the next pass, too.
func TestAsyncPositionBehindTheEndOfItsPass(t *testing.T) {
	data := testkit.Samples(t, t.TempDir(), 43)
	m := reading(t, false, 0)
	for _, batch := range []uint64{6, math.MaxInt64} {
		e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 1, Pservers: 1, Mode: job.Mode_ASYNC})
		state := t.TempDir()
		saveAt(t, m.Program, state, executor.Progress{Steps: 20, Pass: 3, Batch: batch, Reader: executor.ReaderHash(m.Program)})
		if _, err := e.Load(bounded(t), state, m.Program, executor.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		first := -1
		summary, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 2, Save: state}, func(s executor.StepResult) error {
			if first < 0 {
				first = s.Pass
			}
			return nil
		})
		now, _, wrong := executor.ReadProgress(state)
		if err != nil || wrong != nil || first != 4 || summary.Passes != 2 || summary.Records != 2*43 || now.Pass != 6 || now.Batch != 0 {
			t.Errorf("batch %d: first pass %d, %+v, %+v, %v", batch, first, summary, now, errors.Join(err, wrong))
		}
	}
}

// saveAt saves initial values with a Progress.
func saveAt(t testing.TB, p *program.Program, dir string, at executor.Progress) {
	t.Helper()
	e := executor.New()
	defer e.Close()
	if err := e.Startup(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	e.SetProgress(at)
	if err := e.Save(context.Background(), dir, p); err != nil {
		t.Fatal(err)
	}
}
