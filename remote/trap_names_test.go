package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// lookalikes is a model whose parameters are called like beginnings, slices and gradients of others.
func lookalikes(t *testing.T) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.Batch(r, 8))
	named := func(name string) layers.Option { return layers.Param(layers.ParamAttr{Name: name}) }
	h := layers.Mul(layers.Embedding(v[0], 7, 4, named("emb")), layers.Embedding(v[0], 5, 4, named("embedding")))
	for _, name := range []string{"w", "w.block0", "w.block1", "w@GRAD.block0"} {
		h = layers.FC(h, 4, layers.NoBias(), named(name))
	}
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(h, 1, layers.NoBias(), named("last")), v[1]))
	optimizer.Adagrad(0.1).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// Trap 8: names that begin like others, more servers than parameters, and servers without any.
func TestLookalikeNames(t *testing.T) {
	t.Parallel()
	m := lookalikes(t)
	data := testkit.Records(t, t.TempDir(), 30, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Int64, uint64(i), 1), testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	r := newRig(t)
	l := r.listener()
	for _, spec := range []*remote.JobSpec{
		{Trainers: 2, Pservers: 2, MinBlockSize: 4},
		{Trainers: 2, Pservers: 9, NoSlice: true},
		{Trainers: 2, Pservers: 3, MinBlockSize: 4, SplitMethod: "hash_name"},
	} {
		run := executor.TrainOptions{Data: data, Save: t.TempDir()}
		_, status := trainOn(t, executorOf(t, l, spec), m, run, nil)
		empty := 0
		for _, p := range status.Placement {
			if p.Slices == 0 {
				empty++
			}
		}
		if spec.Pservers == 9 && empty != 2 {
			t.Errorf("%d of 9 servers hold nothing of 7 parameters", empty)
		}
		mustEqualReference(t, m, spec.Trainers, run)
	}
}

// Trap 12: the mode and the slicing that a job asks for are those that it gets, also where they are not the default.
func TestSpecIsHonoured(t *testing.T) {
	t.Parallel()
	m := lookalikes(t)
	data := testkit.Records(t, t.TempDir(), 8, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Int64, uint64(i), 1), testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	l := listener(t)
	for _, c := range []struct {
		mode   job.Mode
		whole  bool
		slices int32
	}{{job.Mode_SYNC, false, 2 * 7}, {job.Mode_SYNC, true, 7}, {job.Mode_ASYNC, false, 2 * 7}, {job.Mode_ASYNC, true, 7}} {
		e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, Mode: c.mode, NoSlice: c.whole, MinBlockSize: 1})
		summary, status := trainOn(t, e, m, executor.TrainOptions{Data: data, Passes: 2}, nil)
		slices := int32(0)
		for _, p := range status.Placement {
			slices += p.Slices
		}
		if status.Mode != c.mode || slices != c.slices {
			t.Errorf("mode %v with %d slices, want %v with %d", status.Mode, slices, c.mode, c.slices)
		}
		if summary.Records != 2*8 {
			t.Errorf("%v: %d records in 2 passes over 8", c.mode, summary.Records)
		}
	}
}

// Trap 9: random initial values are those of the whole variable, however it is sliced.
func TestInitialValues(t *testing.T) {
	t.Parallel()
	m := layers.NewModel().Seed(9)
	x := layers.Data(m, "x", layers.Dims(5))
	h := x
	for _, init := range []layers.Initializer{layers.Uniform(-1, 1), layers.Normal(0, 1), layers.TruncatedNormal(0, 1), layers.Xavier(),
		layers.XavierNormal(), layers.MSRA(), layers.MSRANormal(), layers.Constant(0.5)} {
		h = layers.FC(h, 5, layers.Param(layers.ParamAttr{Initializer: init}), layers.Bias(layers.ParamAttr{Initializer: init}))
	}
	loss := layers.Mean(h)
	optimizer.SGD(0.0).Minimize(loss) // a step at rate 0 leaves everything as it is
	model := testkit.Built(t, m, loss)
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), model.Program); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	l := r.listener()
	for _, spec := range []*remote.JobSpec{
		{Trainers: 1, Pservers: 1, NoSlice: true},
		{Trainers: 2, Pservers: 4, MinBlockSize: 1},
		{Trainers: 1, Pservers: 3, MinBlockSize: 8, SplitMethod: "hash_name"},
	} {
		spec.Save = t.TempDir()
		e := executorOf(t, l, spec)
		if _, err := e.Run(bounded(t), model.Program, testkit.Batch(t, model.Program, 1, 2)); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(testkit.Saved(t, spec.Save, model.Program), testkit.Persistables(local.Scope(), model.Program)); err != nil {
			t.Errorf("%d servers: %v", spec.Pservers, err)
		}
	}
}
