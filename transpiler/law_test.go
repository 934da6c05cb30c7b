package transpiler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// steps is how many rounds the law is tested for: enough for accumulators to matter.
const steps = 3

// batch draws values for the fed variables of p: labels for integers.
func batch(t testing.TB, p *program.Program, random *rand.Rand) executor.Feed {
	feed := executor.Feed{}
	for _, v := range p.Global().Vars() {
		if !v.NeedCheckFeed {
			continue
		}
		dims := append([]int64{batchRows}, v.Dims[1:]...)
		value, err := tensor.New(v.DType, dims...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range value.Len() {
			if v.DType == tensor.Int64 {
				value.Int64s()[i] = random.Int64N(2)
			} else {
				value.Float32s()[i] = float32(random.NormFloat64())
			}
		}
		feed[v.Name] = value
	}
	return feed
}

func same(a, b *tensor.Tensor) bool {
	return a != nil && b != nil && bytes.Equal(tensor.AppendStream(nil, a), tensor.AppendStream(nil, b))
}

// checkLaw trains p for some steps in the reference executor and on a cluster, and returns the first difference in what
// is fetched or saved.
func checkLaw(t testing.TB, p *program.Program, cfg transpiler.Config, fetch ...string) error {
	cfg.Fetch = fetch
	r, err := transpiler.Transpile(context.Background(), p, cfg)
	if err != nil {
		return err
	}
	oracle, err := reference.New(p, cfg.Trainers)
	if err != nil {
		return err
	}
	defer oracle.Close()
	c := start(t, r, cfg.Trainers)
	defer c.stop()
	random := rand.New(rand.NewPCG(1, 2))
	for step := range steps {
		feed := batch(t, p, random)
		want, err := oracle.Run(context.Background(), p, feed, fetch...)
		if err != nil {
			return fmt.Errorf("reference, step %d: %w", step, err)
		}
		got, err := c.step(feed, batchRows, fetch...)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for i, name := range fetch {
			if name != "loss" && !same(got[i], want[i]) { // each trainer reports the loss of its own rows
				return fmt.Errorf("step %d: fetched %s differs", step, name)
			}
		}
	}
	saved, err := c.saved()
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	names := executor.Persistables(p)
	if len(saved) != len(names) {
		return fmt.Errorf("%d files for %d persistable variables", len(saved), len(names))
	}
	for _, name := range names {
		if want, _ := oracle.Scope().Find(name); !same(saved[name], want) {
			return fmt.Errorf("%s differs:\n got %v\nwant %v", name, show(saved[name]), show(want))
		}
	}
	return nil
}

func show(t *tensor.Tensor) string {
	if t == nil {
		return "nothing"
	}
	if t.DType() == tensor.Float32 {
		return fmt.Sprint(t, t.Float32s()[:min(8, t.Len())])
	}
	return t.String()
}

// perceptron is a model of two layers with a parameter that a small MinBlockSize slices unevenly.
func perceptron(t testing.TB, o *optimizer.Optimizer) *program.Program {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(7))
	y := layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	hidden := layers.FC(x, 5, layers.Act("tanh"), layers.Param(layers.ParamAttr{LearningRate: 0.5}))
	loss, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.Dropout(hidden, 0.3), 3), y)
	o.Minimize(layers.Mean(loss, layers.Name("loss")))
	return built(t, m)
}

func TestLaw(t *testing.T) {
	rate := optimizer.Exponential(0.1, 2, 0.5, false)
	optimizers := map[string]*optimizer.Optimizer{
		"sgd":             optimizer.SGD(0.1),
		"momentum":        optimizer.Momentum(0.1, 0.9, optimizer.Nesterov()),
		"adagrad":         optimizer.Adagrad(0.1),
		"decayed adagrad": optimizer.DecayedAdagrad(0.1),
		"adam":            optimizer.Adam(rate),
		"adamax":          optimizer.Adamax(0.1),
		"adadelta":        optimizer.Adadelta(),
		"rmsprop":         optimizer.RMSProp(0.1, optimizer.Centered()),
		"ftrl":            optimizer.Ftrl(0.1),
		"ftrl from 0":     optimizer.Ftrl(optimizer.LinearWarmup(0.1, 2, 0, 0.1)),
		"l2, by value":    optimizer.Momentum(0.1, 0.9, optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByValue(-0.1, 0.1))),
		"l1, by norm":     optimizer.SGD(rate, optimizer.Regularize(layers.L1(0.1)), optimizer.ClipGradients(optimizer.ByNorm(0.1))),
		"global norm":     optimizer.Adam(rate, optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1))),
	}
	for name, o := range optimizers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := perceptron(t, o)
			for _, cfg := range []transpiler.Config{
				{Trainers: 1, PServers: 1},
				{Trainers: 3, PServers: 2, MinBlockSize: 4},
				{Trainers: 2, PServers: 4, MinBlockSize: 3, SplitMethod: transpiler.HashName},
				{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
			} {
				if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
		})
	}
}

// State that does not depend on rows, such as a counter of steps, is the same everywhere, also on trainers that have no rows.
func TestLawOfCounters(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2))
	y := layers.Data(m, "y", layers.Dims(1))
	count := m.State("count", tensor.Int64, []int64{1}, layers.Constant(0))
	layers.Increment(layers.Increment(count, 1), 1)
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y)))
	p := built(t, m)
	for _, trainers := range []int{1, 3, batchRows + 2} {
		if err := checkLaw(t, p, transpiler.Config{Trainers: trainers, PServers: 2}); err != nil {
			t.Errorf("%d trainers: %v", trainers, err)
		}
	}
}

// What a trainer's own rows make of a counter has no one value.
func TestCountersOfRowsAreRefused(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1))
	sum := m.State("sum", tensor.Float32, []int64{1}, layers.Constant(0))
	layers.AssignTo(layers.Increment(sum, 1), layers.ReduceSum(x))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.FC(x, 1)))
	_, err := transpiler.Transpile(t.Context(), built(t, m), transpiler.Config{Trainers: 2, PServers: 1})
	if f := new(fault.Fault); !errors.As(err, &f) || f.Kind != fault.Unsupported || f.Variable != "sum" {
		t.Errorf("%v", err)
	}
}

// A server may hold nothing but forward state, whose initial value it must still compute.
func TestLawOfForwardState(t *testing.T) {
	for _, trainers := range []int{1, 3} {
		if err := checkLaw(t, batchNorm(t), transpiler.Config{Trainers: trainers, PServers: 9}); err != nil {
			t.Errorf("%d trainers: %v", trainers, err)
		}
	}
}

// What only servers compute can be reported: the counter, the learning rate, the global norm, and accumulators.
func TestLawOfFetchedUpdates(t *testing.T) {
	o := optimizer.Adam(optimizer.Exponential(0.1, 2, 0.5, false), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))
	fetch := []string{"loss", program.LRDecayCounter, "elementwise_mul_0.tmp_0", "sqrt_0.tmp_0", "fc_0.w_0_moment1_0",
		"fc_0.w_0_beta1_pow_acc_0", "fc_0.w_0"}
	if err := checkLaw(t, perceptron(t, o), transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 4}, fetch...); err != nil {
		t.Error(err)
	}
}
