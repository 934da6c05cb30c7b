package chaos_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// twice bounds the records that an async job trains more than once, in all passes: a batch for each trainer that is lost. Each fault loses at most
// one trainer, unless it hits what all three of them need.
func twice() int64 { return int64(*faults) * 3 * batch }

// lossBound is how far the loss of what an async run saves may be above that of an undisturbed one.
const lossBound = 1.1

// annealed is a rate that is small at the end of a job. At one rate all along, where a job arrives is a matter of what it trains last: on one
// machine, and every record once, orders of the records alone make a final loss of up to 1.5 times the median.
func annealed() *optimizer.Optimizer {
	n := int(rounds())
	return optimizer.SGD(optimizer.Piecewise([]int{n * 70 / 100, n * 85 / 100}, []float64{0.02, 0.004, 0.0008}))
}

// An async job hands the records of a lost trainer to others. It trains no record less than once, few more than once, and arrives where an
// undisturbed run arrives.
func TestAsync(t *testing.T) {
	m := model(t, annealed())
	data := testkit.Samples(t, t.TempDir(), records())
	calm := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, nil)
	checkLedger(t, calm.details.Ledger, data, 0)
	want := lossOf(t, m, data, calm.saved)
	each(t, func(t *testing.T, seed uint64) {
		out := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, draw(seed, *faults, rounds(), 3, 2, anyButScale))
		checkLedger(t, out.details.Ledger, data, twice())
		got := lossOf(t, m, data, out.saved)
		t.Logf("the loss ends at %v, undisturbed at %v", got, want)
		if !(got <= want*lossBound) {
			t.Errorf("the loss ends at %v, undisturbed at %v", got, want)
		}
	})
}

// The parameters themselves count what was applied to them: of each record the update of every pass, and of few records one more.
func TestAsyncUpdates(t *testing.T) {
	m := counting(t)
	data := testkit.Records(t, t.TempDir(), records(), func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id}
	})
	each(t, func(t *testing.T, seed uint64) {
		out := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, draw(seed, *faults, rounds(), 3, 2, anyButScale))
		checkLedger(t, out.details.Ledger, data, twice())
		more := int64(0)
		for record, updates := range testkit.Saved(t, out.saved, m.Program)["updates"].Float32s() {
			if updates != float32(int64(updates)) || updates < passes {
				t.Fatalf("record %d was applied %v times, want %d or more", record, updates, passes)
			}
			more += int64(updates) - passes
		}
		t.Logf("%d updates of a record were applied twice", more)
		if more > twice() {
			t.Errorf("%d updates of a record were applied twice, want at most %d", more, twice())
		}
	})
}

// counting is a model of one parameter, "updates", with an element for each record. A step adds one to those of its batch, whatever their values,
// so that neither the order of the updates nor their age matters.
func counting(t testing.TB) testkit.Model {
	t.Helper()
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	updates := layers.Embedding(v[0], int64(records()), 1, layers.Param(layers.ParamAttr{Name: "updates", Initializer: layers.Constant(0)}))
	loss := layers.ReduceSum(layers.Scale(updates, -1, 0), layers.Name("loss"))
	optimizer.SGD(1).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// lossOf is the mean loss over all records of the parameters that a job has saved.
func lossOf(t *testing.T, m testkit.Model, data map[string][]string, saved string) float64 {
	t.Helper()
	e := executor.New()
	defer e.Close()
	sum, rows := 0.0, int64(0)
	_, err := e.Train(bounded(t), m.Program.CloneForTest(), executor.TrainOptions{Data: data, Passes: 1, Params: saved, Fetch: []string{m.Loss}},
		func(r executor.StepResult) error {
			sum += float64(testkit.Loss(t, r.Fetched[0])) * float64(r.Rows)
			rows += r.Rows
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return sum / float64(rows)
}
