package remote_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/tensor"
)

// A job with standbys goes on when it loses pservers: each step is told once, in its order, and in one attempt, each record is trained once, and the parameters
// have the bits of the undisturbed job. Nothing else is started again.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string][]string{
		"one":                {"pserver-1"},
		"that of the ledger": {"pserver-0"},
		"all":                {"pserver-0", "pserver-1"},
		"the standby":        {"standby-0"},
		"one and a standby":  {"pserver-0", "standby-1"},
		"the coordinator":    {"coordinator", "coordinator"}, // without a step in between
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "one and a standby")
			loseWithStandby(t, dense, kill, false)
		})
	}
	t.Run("that of shared totals", func(t *testing.T) { loseWithStandby(t, shared, []string{"pserver-0"}, false) })
	t.Run("one with tables", func(t *testing.T) { loseWithStandby(t, tables, []string{"pserver-1"}, false) })
}

// dense is a network without tables.
func dense(t *testing.T) (testkit.Model, map[string][]string) {
	opt := optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5)))
	return testkit.Reading(t, 16, opt), testkit.Samples(t, t.TempDir(), 70)
}

// shared is a network for whose loss trainers share sums and means over the batch at two places of each step.
func shared(t *testing.T) (testkit.Model, map[string][]string) {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(4)), layers.Field("mask", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 16)))
	cost, mask := layers.Square(layers.FC(layers.FC(v[0], 8, layers.Act("tanh")), 1)), layers.Square(v[1])
	rows := layers.Div(layers.Mul(cost, mask), layers.Scale(layers.ReduceSum(mask), 1, 1e-3))
	quotient := layers.Div(layers.Mean(cost), layers.Scale(layers.Sqrt(layers.Mean(layers.Square(cost))), 1, 1e-3))
	loss := layers.Add(layers.ReduceSum(rows), quotient, layers.Name("loss"))
	optimizer.Adam(0.02).Minimize(loss)
	data := testkit.Records(t, t.TempDir(), 70, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Float32, uint64(i), 4), testkit.Random(t, tensor.Float32, uint64(i)+500, 1)}
	})
	return testkit.Built(t, m, loss), data
}

// tables is a network with a table that trainers hold, one that only servers hold, and one that grows. The last two are stored as bfloat16.
func tables(t *testing.T) (testkit.Model, map[string][]string) {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("ids", layers.Dims(3, 1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 16)))
	held := layers.Embedding(v[0], 40, 4, layers.Sparse(), layers.Combine("mean"))
	rows := layers.Add(held, layers.Embedding(v[0], 40, 4, layers.Sparse(), layers.Distributed(), layers.StoreBFloat16(), layers.Combine("sqrt")))
	rows = layers.Add(rows, layers.SparseEmbedding(v[0], 2000, 4, layers.StoreBFloat16(), layers.Combine("sum"), layers.CountFilterEntry(2), layers.EvictUnseenDays(1)))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), v[1]), layers.Name("loss"))
	optimizer.Adam(0.02, optimizer.Lazy()).Minimize(loss)
	data := testkit.Records(t, t.TempDir(), 70, func(i int) []*tensor.Tensor {
		ids, err := tensor.FromSlice([]int64{int64(i) % 40, int64(i*i) % 40, int64(i*7) % 40}, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{ids, testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	return testkit.Built(t, m, loss), data
}

// A generation that ends while trainers send a round again may cost the rounds since the last checkpoint, and never a bit.
func TestStandbyAndOthersAreLost(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"trainer-1", "coordinator", "standby-1"} {
		t.Run(other, func(t *testing.T) {
			inShort(t, other, "coordinator")
			loseWithStandby(t, dense, []string{other, "pserver-1"}, true)
		})
	}
}

// A watched job tells which processes its roles have.
type watched struct {
	t      *testing.T
	client *remote.Client
	id     string
}

// roles returns the processes of roles, and whether every pserver has a standby in step.
func (w *watched) roles() (pids map[string]int, inStep bool) {
	if w.id == "" {
		jobs, err := w.client.Jobs(bounded(w.t))
		if err != nil || len(jobs) != 1 {
			w.t.Fatal(jobs, err)
		}
		w.id = jobs[0].Job
	}
	d, err := w.client.Show(bounded(w.t), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	pids, inStep = map[string]int{}, true
	for _, r := range d.Status.Roles {
		pids[cluster.Member{Role: r.Role, Index: int(r.Index)}.ID()] = int(r.Pid)
		extra := int(r.Index) >= len(d.Status.Placement) // that of a pserver which the job does not have any more
		inStep = inStep && (r.Role != job.Role_STANDBY || r.InStep || extra)
	}
	return pids, inStep
}

// kill ends roles by a signal. One that is named again is ended again as soon as it has another process.
func (w *watched) kill(names []string, pids map[string]int, by syscall.Signal) {
	killed, ctx := map[int]bool{}, bounded(w.t)
	for _, name := range names {
		for killed[pids[name]] || pids[name] == 0 {
			if ctx.Err() != nil {
				w.t.Fatalf("%s is not started again: %v", name, ctx.Err())
			}
			pids, _ = w.roles()
		}
		if err := syscall.Kill(pids[name], by); err != nil {
			w.t.Error(name, err)
		}
		killed[pids[name]] = true
	}
}

// loseWithStandby ends roles three times. again says that the job may begin again.
func loseWithStandby(t *testing.T, model func(*testing.T) (testkit.Model, map[string][]string), kill []string, again bool) {
	m, data := model(t)
	save := t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Standby, spec.DayRounds = 1, 2
	l := r.listener()
	e := executorOf(t, l, spec)
	w := &watched{t: t, client: e.Client()}
	times, next, passes, last := 0, uint64(0), 0, uint64(0)
	summary, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if !again && (s.Step != next || s.Attempt != 0 || s.Repeated) {
			t.Errorf("step %d of attempt %d is told, repeated: %v; want step %d", s.Step, s.Attempt, s.Repeated, next)
		}
		next = s.Step + 1
		pids, inStep := w.roles()
		switch {
		case times < 3 && s.Step > last+10 && inStep && !slices.ContainsFunc(kill, func(name string) bool { return pids[name] == 0 }):
			times, last = times+1, s.Step
			by := syscall.SIGKILL
			if times == 2 && !again { // as on a machine that is shut down in order
				by = syscall.SIGTERM
			}
			w.kill(kill, pids, by)
		case times == 3 && s.Step > last+20 && (s.Step+1)%5 == 0:
			passes = s.Pass + 1
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(70 * passes); summary.Records != n {
		t.Errorf("%d records are trained in %d passes, want %d", summary.Records, passes, n)
	}
	want, err := reference.New(m.Program, int(spec.Trainers), executor.WithDayRounds(spec.DayRounds))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}
