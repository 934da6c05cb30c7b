package remote_test

import (
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// The standby of an async server applies each update with the hour that the server has applied it with. So both evict the same keys at the same update: when the standby
// has taken over again and again, a job with one trainer has the bits of the reference, whose table has lost the keys that were unseen for a day.
func TestStandbyOfAsyncJobEvictsByDays(t *testing.T) {
	t.Parallel()
	const records, batch, day = 80, 4, 6
	build := layers.NewModel().Seed(3)
	r := layers.OpenDataset(build, testkit.Dataset, layers.Field("ids", layers.Dims(2, 1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.Batch(r, batch))
	rows := layers.SparseEmbedding(v[0], 2000, 4, layers.Combine("sum"), layers.EvictUnseenDays(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), v[1]), layers.Name("loss"))
	optimizer.Adagrad(0.1).Minimize(loss)
	m := testkit.Built(t, build, loss)
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		ids, err := tensor.FromSlice([]int64{int64(i), 1000 + int64(i*i)%7}, 2, 1) // the first is seen once in a pass, which takes some days
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{ids, testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	save, spec := t.TempDir(), shortLived()
	spec.Mode, spec.Trainers, spec.Standby, spec.DayRounds, spec.RecordsPerTask = job.Mode_ASYNC, 1, 1, day, 2*batch
	e := executorOf(t, newRig(t).listener(), spec)
	w := &watched{t: t, client: e.Client()}
	times, last := 0, uint64(0)
	summary, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		pids, inStep := w.roles()
		switch {
		case times < 3 && s.Step > last+10 && inStep && pids["pserver-0"] > 0 && pids["pserver-1"] > 0:
			times, last = times+1, s.Step
			w.kill([]string{"pserver-0", "pserver-1"}, pids, syscall.SIGKILL)
		case times == 3 && s.Step > last+40:
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	trained := func(dayRounds int64) map[string]*tensor.Tensor {
		t.Helper()
		want, err := reference.New(m.Program, 1, executor.WithDayRounds(dayRounds))
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		_, err = want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000}, func(s executor.StepResult) error {
			if s.Step+1 == summary.Steps {
				return executor.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return testkit.Persistables(want.Scope(), m.Program)
	}
	saved := testkit.Saved(t, save, m.Program)
	if err := testkit.Difference(saved, trained(day)); err != nil {
		t.Errorf("after %d steps: %v", summary.Steps, err)
	}
	if testkit.Difference(saved, trained(1<<40)) == nil {
		t.Error("no key was evicted: the test shows nothing")
	}
}
