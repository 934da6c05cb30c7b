package remote_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// counting is a model whose parameter "updates" counts how often each record was applied.
func counting(t *testing.T, records int) (testkit.Model, map[string][]string) {
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), 8)))
	updates := layers.Embedding(v[0], int64(records), 1, layers.Param(layers.ParamAttr{Name: "updates", Initializer: layers.Constant(0)}))
	loss := layers.ReduceSum(layers.Scale(updates, -1, 0), layers.Name("loss"))
	optimizer.SGD(1).Minimize(loss)
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id}
	})
	return testkit.Built(t, m, loss), data
}

// Async jobs that end within a pass leave the rest of it to the next one. Over all jobs, each record is applied once in each pass, and the ledger of each job says so
// of the passes that it has ended.
func TestAsyncJobsGoOnWithinAPass(t *testing.T) {
	const records, stops = 1009, 3
	m, data := counting(t, records)
	l := listener(t)
	within, last := 0, executor.Progress{Reader: executor.ReaderHash(m.Program)}
	e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 16, Mode: job.Mode_ASYNC, RecordsPerTask: 20})
	save := t.TempDir()
	for ended := false; !ended; {
		run := executor.TrainOptions{Data: data, Passes: 1 << 20, Save: save}
		if ended = within == stops; ended { // the rest of the pass
			run.Passes = 1
		}
		told := 0
		_, err := e.Train(bounded(t), m.Program, run, func(executor.StepResult) error {
			if told++; told == 20 && !ended {
				return executor.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		now, _, err := executor.ReadProgress(save)
		if err != nil || now.Pass < last.Pass || now == last || now.Batch != 0 {
			t.Fatalf("%+v after %+v, %v", now, last, err)
		}
		if now.Trained != "" {
			within++
		}
		for _, p := range lastLedger(t, l).GetPasses() {
			if p.Again != 0 || int(p.Pass) < now.Pass && p.Records != records {
				t.Errorf("of a job whose state is %+v the ledger of pass %d has %d records, %d again", now, p.Pass, p.Records, p.Again)
			}
		}
		last = now
	}
	if last.Trained != "" {
		t.Errorf("the last job leaves %+v", last)
	}
	for record, n := range testkit.Saved(t, save, m.Program)["updates"].Float32s() {
		if n != float32(last.Pass) {
			t.Fatalf("record %d was applied %v times, want %d", record, n, last.Pass)
		}
	}
}

// A run that trains batch after batch goes on behind the pass in which an async job has ended, on this machine and on a cluster.
func TestOthersGoOnBehindThePassOfAnAsyncJob(t *testing.T) {
	const records = 90
	m, data := counting(t, records)
	state := t.TempDir()
	saveAt(t, m.Program, state, executor.Progress{Steps: 5, Pass: 3, Reader: executor.ReaderHash(m.Program), Trained: "0 40 8 2"})
	local := executor.New()
	defer local.Close()
	l := listener(t)
	for name, c := range map[string]struct {
		executor.Executor
		pass    int
		records int64
	}{
		"local": {local, 4, records},
		"sync":  {executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1}), 4, records},
		"async": {executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1, Mode: job.Mode_ASYNC}), 3, records - 42},
	} {
		if _, err := c.Load(bounded(t), state, m.Program, executor.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		first, save := -1, t.TempDir()
		summary, err := c.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 1, Save: save}, func(s executor.StepResult) error {
			if first < 0 {
				first = s.Pass
			}
			return nil
		})
		now, _, wrong := executor.ReadProgress(save)
		if err = errors.Join(err, wrong); err != nil || first != c.pass || summary.Records != c.records || now.Pass != c.pass+1 || now.Trained != "" {
			t.Errorf("%s: it begins with pass %d and trains %d records, then %+v; %v", name, first, summary.Records, now, err)
		}
	}
}
