package transpiler_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

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
