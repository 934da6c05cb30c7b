package transpiler_test

import (
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// byCases is a rate as Fluid's piecewise_decay builds it: each case of a switch sets it. lasting keeps the rate from step to step, as Fluid does.
func byCases(lasting bool) func(step layers.Variable) layers.Variable {
	return func(step layers.Variable) layers.Variable {
		m := step.Model()
		number := func(value float64) layers.Variable { return layers.FillConstant(m, value, []int64{1}) }
		rate := number(0)
		if lasting {
			rate = m.State(m.UniqueName("rate"), tensor.Float32, []int64{1}, layers.Constant(0))
		}
		set := func(value float64) func() { return func() { layers.AssignTo(rate, number(value)) } }
		layers.Switch(m,
			layers.SwitchCase{If: layers.LessThan(step, number(1)), Then: set(0.1)},
			layers.SwitchCase{If: layers.LessThan(step, number(2)), Then: set(0.05)},
			layers.SwitchCase{Then: set(0.01)})
		return rate
	}
}

// The case of a step decides its rate, to the bit.
func TestCasesAreStepsOfTheRate(t *testing.T) {
	feed := batch(t, perceptron(t, optimizer.SGD(0.1)), rand.New(rand.NewPCG(1, 1)))
	weights := func(o *optimizer.Optimizer) (all []*tensor.Tensor) {
		exe := executor.New()
		defer exe.Close()
		p := perceptron(t, o)
		for range 4 {
			values, err := exe.Run(t.Context(), p, feed, "fc_0.w_0")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, values[0].Clone())
		}
		return all
	}
	want := weights(optimizer.SGD(optimizer.Piecewise([]int{1, 2}, []float64{0.1, 0.05, 0.01})))
	for _, lasting := range []bool{false, true} {
		for step, got := range weights(optimizer.SGD(optimizer.Schedule(byCases(lasting)))) {
			if err := gradcheck.SameBits(got, want[step]); err != nil {
				t.Errorf("lasting %v, step %d: %v", lasting, step, err)
			}
		}
	}
}
