package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// The bound of asynchronous training: averaged over seeds, the loss over all records after training is at most asyncBound times that of training on
// one machine with the same batches. Training must also have helped: the loss is below a tenth of what it was.
const (
	asyncBound = 1.25
	asyncSeeds = 5
)

// Async mode trains with parameters that are a little old. It must find the same minimum as one machine does.
func TestAsyncConvergesOnHousing(t *testing.T) {
	comparesValues(t)
	data, records := housing(t)
	l := listener(t)
	var initial, local, async float64
	for seed := range int64(asyncSeeds) {
		m := house(t, seed+1)
		run := executor.TrainOptions{Data: data, Passes: 20}
		initial += lossOver(t, m, records, executor.TrainOptions{}, nil)
		local += lossOver(t, m, records, run, executor.New())
		async += lossOver(t, m, records, run, executorOf(t, l, &remote.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, MinBlockSize: 5}))
	}
	t.Logf("mean loss over %d seeds: %.3g before, %.4g on one machine, %.4g with 3 asynchronous trainers",
		asyncSeeds, initial/asyncSeeds, local/asyncSeeds, async/asyncSeeds)
	if async > asyncBound*local || async > initial/10 {
		t.Errorf("loss %g, want at most %g times %g and a tenth of %g", async/asyncSeeds, asyncBound, local/asyncSeeds, initial/asyncSeeds)
	}
}

// housing returns the Boston housing training set, or samples like it, as files and in memory.
func housing(t *testing.T) (data map[string][]string, records [][]*tensor.Tensor) {
	var train samples
	if folder := os.Getenv("EDL_TESTDATA"); folder == "" {
		for i := range 404 {
			x := testkit.Random(t, tensor.Float32, uint64(i), 13)
			price := 22 + 3*testkit.Random(t, tensor.Float32, uint64(i)+1000, 1).Float32s()[0]
			for k, feature := range x.Float32s() {
				feature /= 4
				x.Float32s()[k] = feature
				price += float32(k-6) * feature
			}
			y, _ := tensor.FromSlice([]float32{price})
			train = append(train, []*tensor.Tensor{x, y})
		}
	} else {
		f, err := os.Open(filepath.Join(folder, "housing", "housing.data"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, _, err := convert.Housing(t.Context(), f, &train, new(samples)); err != nil {
			t.Fatal(err)
		}
	}
	return testkit.Records(t, t.TempDir(), len(train), func(i int) []*tensor.Tensor { return train[i] }), train
}

// samples is a dataset.RecordWriter that keeps what is written.
type samples [][]*tensor.Tensor

var _ dataset.RecordWriter = (*samples)(nil)

func (s *samples) Write(record []byte) error {
	values, err := dataset.DecodeRecord(record)
	*s = append(*s, values)
	return err
}

// house is Fluid's fit_a_line: one price out of 13 features.
func house(t *testing.T, seed int64) testkit.Model {
	m := layers.NewModel().Seed(seed)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 500, int(seed)), 20)))
	w := layers.ParamAttr{Initializer: layers.Normal(0, 1)}
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(v[0], 1, layers.Param(w)), v[1]))
	optimizer.SGD(0.05).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// lossOver trains m with e, which it closes, and returns the mean loss over all records with the parameters that were saved. Without an executor the
// parameters are the initial ones.
func lossOver(t *testing.T, m testkit.Model, records [][]*tensor.Tensor, run executor.TrainOptions, e executor.Executor) float64 {
	t.Helper()
	run.Save = t.TempDir()
	if e == nil {
		local := executor.New()
		defer local.Close()
		if err := local.Startup(t.Context(), m.Program); err != nil {
			t.Fatal(err)
		}
		if err := executor.SavePersistables(local.Scope(), run.Save, m.Program); err != nil {
			t.Fatal(err)
		}
	} else {
		defer e.Close()
		if _, err := e.Train(bounded(t), m.Program, run, nil); err != nil {
			t.Fatal(err)
		}
	}
	values := testkit.Saved(t, run.Save, m.Program)
	w, b := values["fc_0.w_0"].Float32s(), values["fc_0.b_0"].Float32s()
	sum := 0.0
	for _, r := range records {
		prediction := float64(b[0])
		for k, x := range r[0].Float32s() {
			prediction += float64(w[k]) * float64(x)
		}
		difference := prediction - float64(r[1].Float32s()[0])
		sum += difference * difference
	}
	return sum / float64(len(records))
}

// Every record is trained once in each pass, by any trainer.
func TestAsyncTrainsEveryRecord(t *testing.T) {
	m := testkit.Reading(t, 8, optimizer.SGD(0.05))
	data := testkit.Samples(t, t.TempDir(), 103)
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, MinBlockSize: 8})
	summary, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 4, Fetch: []string{m.Loss}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Records != 4*103 || summary.Passes != 4 {
		t.Errorf("%+v, want %d records in 4 passes", summary, 4*103)
	}
}
