package optimizer_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// lion is the optimizer Lion (Chen et al. 2023): the sign of a mean of gradients sets the direction.
func lion(beta1, beta2 float64) optimizer.Rule {
	return func(u *optimizer.Update) {
		momentum := u.State("momentum", 0)
		mix := func(beta float64) layers.Variable {
			return layers.Add(layers.Scale(momentum, beta, 0), layers.Scale(u.Grad, 1-beta, 0))
		}
		direction := layers.Sign(mix(beta1))
		u.Set(u.Param, layers.Sub(u.Param, layers.Mul(direction, u.Rate)))
		u.Set(momentum, mix(beta2))
	}
}

func TestCustomRuleIsAProgram(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1), layers.DType(tensor.Float64))
	w := layers.ParamAttr{Name: "w", Initializer: layers.Constant(0.5)}
	loss := layers.Mean(layers.Square(layers.FC(x, 1, layers.NoBias(), layers.Param(w)))) // (w x)², gradient 2 w x²
	optimizer.Custom(0.25, lion(0.5, 0.75)).Minimize(loss)
	p := build(t, m)
	for _, op := range withRole(p, program.RoleOptimize) {
		if pairs := op.RoleVars(); len(pairs) != 1 || pairs[0] != [2]string{"w", "w@GRAD"} {
			t.Errorf("%s belongs to %v", op.Type, pairs)
		}
	}
	one, _ := tensor.FromSlice([]float64{1}, 1, 1)
	machine := start(t, p, map[string]*tensor.Tensor{"x": one})
	weight, momentum := 0.5, 0.0
	for step := range 10 {
		machine.run(p.Global().Ops)
		grad := 2 * weight
		direction := 0.5*momentum + 0.5*grad
		if direction != 0 {
			weight -= 0.25 * math.Copysign(1, direction)
		}
		momentum = 0.75*momentum + 0.25*grad
		if got := machine.scalar("w"); got != weight {
			t.Fatalf("step %d: w = %v, want %v", step, got, weight)
		}
		if got := machine.scalar("w_momentum_0"); got != momentum {
			t.Fatalf("step %d: momentum = %v, want %v", step, got, momentum)
		}
	}
}
