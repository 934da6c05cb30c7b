package transpiler_test

import (
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// descend appends param -= rate * step.
func descend(u *optimizer.Update, step layers.Variable) {
	u.Set(u.Param, layers.Sub(u.Param, layers.Mul(step, u.Rate)))
}

// one returns 1/sqrt(squares + 0.01), [1].
func inverseRoot(squares layers.Variable) layers.Variable {
	one := layers.FillConstant(squares.Model(), 1, []int64{1})
	return layers.Div(one, layers.Sqrt(layers.Scale(squares, 1, 0.01)))
}

// Updates that a user writes may use norms in other places than clipping does.
var normRules = map[string]optimizer.Rule{
	// The norm of the parameter comes behind ops that depend on the norm of the gradient.
	"layer-wise rate": func(u *optimizer.Update) {
		clipped := layers.Mul(u.Grad, inverseRoot(layers.SquaredNorm(u.Grad)))
		trust := layers.Sqrt(layers.SquaredNorm(u.Param))
		descend(u, layers.Mul(clipped, trust))
	},
	// The norm is that of a temporary, which the update reads too.
	"norm of the regularized gradient": func(u *optimizer.Update) {
		grad := layers.Sums([]layers.Variable{u.Grad, layers.L2(0.5)(u.Param)})
		descend(u, layers.Mul(grad, inverseRoot(layers.SquaredNorm(grad))))
	},
	// The norm of a velocity, which changes before norms are exchanged.
	"norm of an accumulator": func(u *optimizer.Update) {
		velocity := u.State("velocity", 0)
		u.Set(velocity, layers.Sums([]layers.Variable{layers.Scale(velocity, 0.9, 0), u.Grad}))
		descend(u, layers.Mul(velocity, inverseRoot(layers.SquaredNorm(velocity))))
	},
	// The accumulator changes behind an op that depends on a norm, so its own norm cannot be taken ahead.
	"norm of an accumulator that was read": func(u *optimizer.Update) {
		velocity := u.State("velocity", 0.1)
		step := layers.Mul(velocity, inverseRoot(layers.SquaredNorm(u.Grad)))
		u.Set(velocity, layers.Sums([]layers.Variable{layers.Scale(velocity, 0.9, 0), u.Grad}))
		descend(u, layers.Mul(step, inverseRoot(layers.SquaredNorm(velocity))))
	},
	// A norm of what depends on another norm would need a second exchange.
	"norm behind a norm": func(u *optimizer.Update) {
		clipped := layers.Mul(u.Grad, inverseRoot(layers.SquaredNorm(u.Grad)))
		descend(u, layers.Mul(clipped, inverseRoot(layers.SquaredNorm(layers.Sums([]layers.Variable{clipped, u.Param})))))
	},
	// The scalar depends on the learning rate, which is computed behind the norms.
	"norm times rate": func(u *optimizer.Update) {
		scale := layers.Mul(inverseRoot(layers.SquaredNorm(u.Grad)), u.Rate)
		descend(u, layers.Mul(u.Grad, scale))
	},
	// The norm is that of a gradient which has been scaled by the learning rate.
	"norm behind the rate": func(u *optimizer.Update) {
		grad := layers.Mul(u.Grad, u.Rate)
		descend(u, layers.Mul(grad, inverseRoot(layers.SquaredNorm(grad))))
	},
	// Not row by row at all.
	"largest gradient": func(u *optimizer.Update) {
		largest := layers.ReduceMax(layers.Abs(u.Grad))
		descend(u, layers.Div(u.Grad, layers.Scale(largest, 1, 0.1)))
	},
}

func TestLawOfNorms(t *testing.T) {
	for name, rule := range normRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, clip := range []optimizer.Clip{nil, optimizer.ByGlobalNorm(0.1)} {
				var options []optimizer.Option
				if clip != nil {
					options = append(options, optimizer.ClipGradients(clip))
				}
				p := perceptron(t, optimizer.Custom(optimizer.NaturalExp(0.1, 1, 0.5, false), rule, options...))
				for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 3, MinBlockSize: 3}, {Trainers: 1, PServers: 2}} {
					if err := checkLaw(t, p, cfg); err != nil {
						t.Errorf("%+v: %v", cfg, err)
					}
				}
			}
		})
	}
}

// Groups of several parameters, update state of no parameter, and constants of parameter shape.
func TestLawOfUnusualUpdates(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x, y := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "y", layers.Dims(6))
	mask := m.State("mask", tensor.Float32, []int64{6, 6}, layers.Uniform(0, 1))
	var tied layers.Variable
	rule := func(u *optimizer.Update) {
		step := u.Grad
		switch u.Param.Name() {
		case "masked": // reads rows of a variable that nothing updates
			step = layers.Mul(step, mask)
		case "first": // leaves something for the update of another parameter
			tied = layers.Scale(step, 0.5, 0)
		case "second":
			step = layers.Sums([]layers.Variable{step, tied})
		case "filled": // reads a constant of its own shape
			step = layers.Sums([]layers.Variable{step, layers.FillConstant(m, 0.25, []int64{6, 6})})
		}
		descend(u, step)
	}
	h := x
	for _, name := range []string{"masked", "first", "second", "filled"} {
		h = layers.FC(h, 6, layers.Param(layers.ParamAttr{Name: name}), layers.Act("tanh"))
	}
	loss := layers.Mean(layers.SquareErrorCost(h, y))
	m.As(program.RoleOptimize, nil, func() {
		layers.Increment(m.State("updates", tensor.Int64, []int64{1}, layers.Constant(0)), 1)
	})
	optimizer.Custom(0.1, rule).Minimize(loss)
	p := built(t, m)
	cfg := transpiler.Config{Trainers: 3, PServers: 3, MinBlockSize: 6}
	if err := checkLaw(t, p, cfg, "updates", "first"); err != nil {
		t.Error(err)
	}
	sliced := map[string]int{}
	r := transpile(t, p, cfg)
	for _, s := range r.Placement.Slices {
		sliced[s.Param]++
	}
	if sliced["masked"] != 3 || sliced["first"] != 1 || sliced["second"] != 1 || sliced["filled"] != 1 {
		t.Errorf("slices: %v", sliced)
	}
	if a, b := r.Placement.Of("first")[0].Server, r.Placement.Of("second")[0].Server; a != b {
		t.Errorf("parameters whose updates share a variable are on servers %d and %d", a, b)
	}
}

// A loss that is a sum has gradients that are summed.
func TestLawOfSummedLoss(t *testing.T) {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(3)), layers.Data(m, "y", layers.Dims(2))
	optimizer.SGD(0.01).Minimize(layers.ReduceSum(layers.SquareErrorCost(layers.FC(x, 2), y)))
	p := built(t, m)
	if err := checkLaw(t, p, transpiler.Config{Trainers: 3, PServers: 2}); err != nil {
		t.Error(err)
	}
	for _, op := range transpile(t, p, twoServers).Trainer.Global().Ops {
		if merge, _ := op.Int("merge"); op.Type == "send" && ops.Merge(merge) != ops.MergeSum {
			t.Errorf("%v is sent with merge %d", op.Inputs["X"], merge)
		}
	}
}
