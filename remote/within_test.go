package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
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

// Whoever trains: a run that ends within a pass leaves the rest of it to the next run, on this machine or on a cluster, in sync mode, with backup trainers or in
// async mode. Over all runs, each record is applied once in each pass.
func TestRunsGoOnWithinAPass(t *testing.T) {
	const records = 509
	m, data := counting(t, records)
	state, l := t.TempDir(), listener(t)
	saveAt(t, m.Program, state, executor.Progress{Steps: 5, Pass: 3, Reader: executor.ReaderHash(m.Program)})
	on := func(spec *remote.JobSpec) func() executor.Executor {
		return func() executor.Executor { return executorOf(t, l, spec) }
	}
	local := func() executor.Executor {
		e := executor.New()
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	oracle := func() executor.Executor {
		e, err := reference.New(m.Program, 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	backup := on(&remote.JobSpec{Trainers: 3, Pservers: 2, MinBlockSize: 16, BackupTrainers: 1})
	async := on(&remote.JobSpec{Trainers: 2, Pservers: 1, Mode: job.Mode_ASYNC, RecordsPerTask: 20})
	sync := on(&remote.JobSpec{Trainers: 2, Pservers: 1})
	last := executor.Progress{}
	for i, run := range []func() executor.Executor{sync, async, local, backup, oracle, backup, sync, async, backup, local} {
		e, told, until, dropped, options := run(), 0, 4, false, executor.TrainOptions{Data: data, Passes: 1000, Save: state}
		if i%4 == 3 {
			options.Passes, until = 1, 1000 // to the end of the pass
		}
		if _, err := e.Load(bounded(t), state, m.Program, executor.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		backups := i == 5 || i == 8
		_, err := e.Train(bounded(t), m.Program, options, func(s executor.StepResult) error {
			dropped = dropped || len(s.Dropped) > 0
			if told++; told >= until && (dropped || !backups) {
				return executor.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if last, _, err = executor.ReadProgress(state); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if until == 1000 && (last.Trained != "" || last.Batch != 0) {
			t.Errorf("run %d: %+v, want the end of a pass", i, last)
		}
		trained := int64(0)
		for _, n := range testkit.Saved(t, state, m.Program)["updates"].Float32s() {
			if passes := int64(last.Pass - 3); int64(n) != passes && int64(n) != passes+1 {
				t.Fatalf("after run %d, %+v, a record was applied %v times", i, last, n)
			}
			trained += int64(n)
		}
		source, err := executor.OpenFiles(t.Context(), m.Program, data, 1)
		if err != nil {
			t.Fatal(err)
		}
		source.GoOn(last)
		if want := int64(last.Pass-3)*records + source.Done(); trained != want {
			t.Errorf("after run %d, %+v, %d records are applied, want %d", i, last, trained, want)
		}
		source.Close()
	}
}
