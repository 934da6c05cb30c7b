package remote_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// countingUpdates is a model of one parameter, "updates", with an element for each record. A step adds one to those of its batch, whatever their values, so that the
// parameter tells how often each record was applied.
func countingUpdates(t *testing.T, records int) (testkit.Model, map[string][]string) {
	t.Helper()
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

// An async job with standbys goes on when it loses pservers. Each step is told in one attempt, and the parameters have exactly the records that the ledger says:
// no update is applied twice, and none is lost.
func TestStandbyOfAsyncJob(t *testing.T) {
	t.Parallel()
	k := int32(1)
	for name, c := range map[string]struct {
		kill []string // of coordinators only the first
		spec *remote.JobSpec
	}{
		"one":                  {[]string{"pserver-1"}, &remote.JobSpec{}},
		"that of the ledger":   {[]string{"pserver-0"}, &remote.JobSpec{Staleness: &k}},
		"all":                  {[]string{"pserver-0", "pserver-1"}, &remote.JobSpec{}},
		"all, between pushes":  {[]string{"pserver-0", "pserver-1"}, &remote.JobSpec{PushEvery: 3, PullEvery: 2}},
		"the standby":          {[]string{"standby-0"}, &remote.JobSpec{}},
		"with the coordinator": {[]string{"pserver-1", "coordinator"}, &remote.JobSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "that of the ledger", "all, between pushes")
			t.Parallel()
			const records = 509
			m, data := countingUpdates(t, records)
			save := t.TempDir()
			r := newRig(t)
			of := shortLived()
			of.Mode, of.RecordsPerTask, of.Standby = job.Mode_ASYNC, 20, 1
			of.Staleness, of.PushEvery, of.PullEvery = c.spec.Staleness, c.spec.PushEvery, c.spec.PullEvery
			l := r.listener()
			e := executorOf(t, l, of)
			w := &watched{t: t, client: e.Client()}
			times, steps, last := 0, 0, 0
			_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
				if s.Attempt != 0 || s.Repeated {
					t.Errorf("step %d of attempt %d is told, repeated: %v", s.Step, s.Attempt, s.Repeated)
				}
				steps++
				pids, inStep := w.roles()
				switch {
				case times < 3 && steps > last+10 && inStep && !slices.ContainsFunc(c.kill, func(name string) bool { return pids[name] == 0 }):
					times, last = times+1, steps
					for _, name := range c.kill {
						if name == "coordinator" && times > 1 { // one that ends twice without a step in between may miss parameters for good
							continue
						}
						by := syscall.SIGKILL
						if times == 2 && name != "coordinator" {
							by = syscall.SIGTERM
						}
						if err := syscall.Kill(pids[name], by); err != nil {
							t.Error(name, err)
						}
					}
				case times == 3 && steps > last+40:
					return executor.ErrStop
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var inLedger, applied int64
			passes := lastLedger(t, l).GetPasses()
			for i, p := range passes {
				if inLedger += p.Records; p.Again != 0 || p.Records != records && i < len(passes)-1 {
					t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
				}
			}
			for record, x := range testkit.Saved(t, save, m.Program)["updates"].Float32s() {
				applied += int64(x)
				if n := int64(x); float32(n) != x || n < int64(len(passes))-1 || n > int64(len(passes)) {
					t.Errorf("record %d was applied %v times in %d passes", record, x, len(passes))
				}
			}
			if applied != inLedger {
				t.Errorf("%d updates of records were applied, and the ledger has %d", applied, inLedger)
			}
		})
	}
}
