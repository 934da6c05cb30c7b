package remote_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// The law for jobs that read their own data: shuffled, in batches that the files do not fill, over several passes.
func TestLawOfReadingJobs(t *testing.T) {
	l := listener(t)
	rapid.Check(t, func(r *rapid.T) {
		buffer, size, doubled := rapid.SampledFrom([]int{0, 7, 1000}).Draw(r, "shuffle"), rapid.IntRange(1, 20).Draw(r, "batch"),
			rapid.Bool().Draw(r, "double buffer")
		s := drawModel(r, func(reader layers.Reader) layers.Reader {
			if buffer > 0 {
				reader = layers.Shuffle(reader, buffer, 11)
			}
			if reader = layers.Batch(reader, size); doubled {
				reader = layers.DoubleBuffer(reader)
			}
			return reader
		})
		spec := drawCluster(r)
		spec.RecordsPerTask = rapid.SampledFrom([]int64{0, 1, 7, 100}).Draw(r, "records per task")
		dir := scratch(r)
		data := testkit.Records(r, dir, rapid.IntRange(1, 45).Draw(r, "records"), func(i int) []*tensor.Tensor {
			var sample []*tensor.Tensor
			for k, in := range s.inputs {
				sample = append(sample, testkit.Random(r, in.dtype, uint64(i*7+k), in.dims...))
			}
			return sample
		})
		run := executor.TrainOptions{Data: data, Passes: rapid.IntRange(1, 3).Draw(r, "passes"), Fetch: s.fetch}
		if err := checkReadingLaw(l, s, spec, run, dir); err != nil {
			r.Fatal(err)
		}
	})
}

// checkReadingLaw trains a dataset on a cluster and by the reference, and returns the first difference in the steps or in what is saved.
func checkReadingLaw(l *remote.Listener, s subject, spec *remote.JobSpec, run executor.TrainOptions, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	oracle, err := reference.New(s.Program, int(spec.Trainers))
	if err != nil {
		return err
	}
	defer oracle.Close()
	cluster, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		return err
	}
	defer cluster.Close()
	var want []executor.StepResult
	wantSummary, err := oracle.Train(ctx, s.Program, run, func(r executor.StepResult) error {
		want = append(want, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	run.Save = filepath.Join(dir, "saved")
	steps := 0
	summary, err := cluster.Train(ctx, s.Program, run, func(r executor.StepResult) error {
		w := want[steps]
		steps++
		if r.Step != w.Step || r.Pass != w.Pass || r.Rows != w.Rows {
			return fmt.Errorf("step %d of pass %d with %d rows, want step %d of pass %d with %d", r.Step, r.Pass, r.Rows, w.Step, w.Pass, w.Rows)
		}
		if err := testkit.Difference(named(s.fetch, r.Fetched), named(s.fetch, w.Fetched)); err != nil {
			return fmt.Errorf("fetched in step %d of %d rows: %w", r.Step, r.Rows, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	wantSummary.Elapsed, summary.Elapsed = 0, 0
	if summary != wantSummary {
		return fmt.Errorf("%+v, want %+v", summary, wantSummary)
	}
	return testkit.Difference(testkit.Saved(panics{}, run.Save, s.Program), testkit.Persistables(oracle.Scope(), s.Program))
}
