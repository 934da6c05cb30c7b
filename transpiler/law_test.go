package transpiler_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
	"pgregory.net/rapid"
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
		"adamw":           optimizer.AdamW(rate, optimizer.WeightDecay(0.1)),
		"lamb":            optimizer.Lamb(rate),
		"lars momentum":   optimizer.LarsMomentum(0.1, 0.9, 0.1),
		"proximal gd":     optimizer.ProximalGD(0.1, optimizer.Penalties(0.01, 0.02)),
		"lookahead":       optimizer.Lookahead(optimizer.Momentum(0.1, 0.9), 0.5, 2),
		"dpsgd":           optimizer.Dpsgd(rate, 0.5, 4, 0.1, 7),
		"ftrl from 0":     optimizer.Ftrl(optimizer.LinearWarmup(0.1, 2, 0, 0.1)),
		"l2, by value":    optimizer.Momentum(0.1, 0.9, optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByValue(-0.1, 0.1))),
		"l1, by norm":     optimizer.SGD(rate, optimizer.Regularize(layers.L1(0.1)), optimizer.ClipGradients(optimizer.ByNorm(0.1))),
		"scaled loss":     optimizer.ScaleLoss(optimizer.Adam(rate, optimizer.Regularize(layers.L2(0.1))), optimizer.LossScaling{GrowAfter: 1}),
		"overflow":        optimizer.ScaleLoss(optimizer.Momentum(0.1, 0.9), optimizer.LossScaling{Initial: 3e38, DropAfter: 1, Drop: 1e-6, GrowAfter: 2}),
		"cases":           optimizer.Momentum(optimizer.Schedule(byCases(false)), 0.9),
		"lasting cases":   optimizer.Adam(optimizer.Schedule(byCases(true)), optimizer.Regularize(layers.L2(0.1))),
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

// Deep gradient compression chooses elements where the parameter is, which stays whole; the bias, which is too small for it, is cut.
func TestLawOfChosenElements(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(128))
	y := layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	loss, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.FC(x, 128, layers.Act("tanh")), 3), y)
	optimizer.DGCMomentum(0.1, 0.9, 1, optimizer.RampUp(2, 0.9, 0.999), optimizer.ClipGradients(optimizer.ByNorm(0.5))).Minimize(layers.Mean(loss, layers.Name("loss")))
	p := asFluidCompresses(t, built(t, m))
	for _, cfg := range []transpiler.Config{{Trainers: 1, PServers: 1}, {Trainers: 3, PServers: 2, MinBlockSize: 4}} {
		if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// asFluidCompresses writes a program of DGCMomentum as Fluid would, whose ops of the backward pass change the gradient in place, and reads it.
func asFluidCompresses(t *testing.T, p *program.Program) *program.Program {
	t.Helper()
	const grad = "fc_0.w_0@GRAD"
	for _, op := range p.Global().Ops {
		switch op.Type {
		case "clip_by_norm":
			if op.In("X") == grad {
				op.Type = "dgc_clip_by_norm"
				op.Inputs["current_step"], op.Outputs["Out"] = []string{"fc_0.w_0_dgc_step_0"}, []string{grad}
				op.SetAttr("rampup_begin_step", float32(1))
				op.SetRole(program.RoleBackward)
			}
		case "dgc":
			op.Inputs["Grad"], op.Outputs["Grad_out"] = []string{grad}, []string{grad}
			op.SetRole(program.RoleBackward)
		case "dgc_momentum":
			op.Inputs["Grad"], op.Outputs["Grad_out"] = []string{grad}, []string{grad}
		}
	}
	return readBack(t, p)
}

// readBack writes a program as a file and reads it, which brings what Fluid has written into the form of EDL.
func readBack(t testing.TB, p *program.Program) *program.Program {
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := program.Decode(data, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Parameters that Paddle keeps twice are updated as masters, on the servers and in slices, and trainers get the copies.
func TestLawOfMasters(t *testing.T) {
	p := perceptron(t, optimizer.Momentum(0.1, 0.9))
	for _, op := range p.Global().Ops {
		if op.Type != "momentum" {
			continue
		}
		param := op.In("Param")
		v, _ := p.Global().Find(param)
		master := v.Copy(param + "_fp32_master_0")
		master.IsParameter = false
		p.Global().EnsureVar(master)
		p.Startup.Global().EnsureVar(master)
		p.Startup.Global().Append(&program.Op{Type: "cast", Inputs: map[string][]string{"X": {param}}, Outputs: map[string][]string{"Out": {master.Name}},
			Attrs: map[string]program.Attr{"in_dtype": int32(tensor.Float32), "out_dtype": int32(tensor.Float32)}})
		op.Inputs["MasterParam"], op.Outputs["MasterParamOut"] = []string{master.Name}, []string{master.Name}
		op.SetAttr("multi_precision", true)
	}
	p = readBack(t, p)
	for _, cfg := range []transpiler.Config{{Trainers: 1, PServers: 1}, {Trainers: 3, PServers: 2, MinBlockSize: 4}} {
		if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// The means of parameters are kept beside them, on the servers and in slices.
func TestLawOfAverages(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(7))
	y := layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	loss, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.FC(x, 5, layers.Act("tanh")), 3), y)
	pairs := optimizer.Adam(0.1).Minimize(layers.Mean(loss, layers.Name("loss")))
	optimizer.ExponentialMovingAverage(pairs, 0.9)
	optimizer.ModelAverage(pairs, 1, 2, 3)
	p := built(t, m)
	for _, cfg := range []transpiler.Config{{Trainers: 1, PServers: 1}, {Trainers: 3, PServers: 2, MinBlockSize: 4}} {
		if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	cut := 0
	result, err := transpiler.Transpile(t.Context(), p, transpiler.Config{Trainers: 3, PServers: 2, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range result.PServers {
		for _, v := range server.Global().Vars() {
			if strings.HasPrefix(v.Name, "fc_0.w_0_ema_0.block") {
				cut++
			}
		}
	}
	if cut != 2 {
		t.Errorf("%d slices of the mean of fc_0.w_0, want 2", cut)
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

// drawProgram draws a small network with shared and frozen parameters, moving statistics, and parameters called like slices of
// others.
func drawProgram(t *rapid.T) (*program.Program, error) {
	m := layers.NewModel().Seed(rapid.Int64Range(0, 9).Draw(t, "seed"))
	h := layers.Data(m, "x", layers.Dims(rapid.Int64Range(1, 5).Draw(t, "features")))
	y := layers.Data(m, "y", layers.Dims(2))
	names := rapid.SampledFrom([][]string{{"", "", ""}, {"w", "w.block0", "w@GRAD.block1"}, {"a:b", "a", "a.block1"},
		{"same", "same", "same"}}).Draw(t, "names")
	width := rapid.Int64Range(1, 6).Draw(t, "width")
	for i, name := range names {
		attr := layers.ParamAttr{Name: name, Frozen: name == "" && rapid.IntRange(0, 4).Draw(t, "frozen") == 0}
		if rapid.Bool().Draw(t, "gentle") {
			attr.LearningRate, attr.Regularizer = 0.3, layers.L2(0.2)
		}
		if name == "same" && i == 0 {
			h = layers.FC(h, width) // equal dims from here on
		}
		h = layers.FC(h, width, layers.Param(attr), layers.Act("tanh"))
		if rapid.IntRange(0, 2).Draw(t, "norm") == 0 {
			h = layers.BatchNorm(h)
		}
	}
	cost := layers.SquareErrorCost(layers.FC(h, 2), y)
	loss := layers.Mean(cost, layers.Name("loss"))
	if rapid.IntRange(0, 3).Draw(t, "sum") == 0 {
		loss = layers.ReduceSum(cost)
	}
	drawOptimizer(t).Minimize(loss)
	return m.Program()
}

func drawOptimizer(t *rapid.T) *optimizer.Optimizer {
	clips := map[string]optimizer.Clip{"none": nil, "value": optimizer.ByValue(-0.1, 0.1), "norm": optimizer.ByNorm(0.1),
		"global norm": optimizer.ByGlobalNorm(0.1)}
	var options []optimizer.Option
	if clip := clips[rapid.SampledFrom([]string{"none", "value", "norm", "global norm"}).Draw(t, "clip")]; clip != nil {
		options = append(options, optimizer.ClipGradients(clip))
	}
	if rapid.Bool().Draw(t, "regularize") {
		options = append(options, optimizer.Regularize(layers.L1(0.01)))
	}
	rate := rapid.SampledFrom([]optimizer.Schedule{optimizer.InverseTime(0.1, 1, 0.5, false), optimizer.Noam(4, 2),
		optimizer.Cosine(0.1, 1, 3)}).Draw(t, "rate")
	switch rapid.IntRange(0, 4).Draw(t, "optimizer") {
	case 0:
		return optimizer.SGD(rate, options...)
	case 1:
		return optimizer.Momentum(0.05, 0.9, options...)
	case 2:
		return optimizer.Adam(rate, options...)
	case 3:
		return optimizer.RMSProp(rate, append(options, optimizer.Centered())...)
	}
	return optimizer.Adamax(0.1, options...)
}

var forms = []string{"", "none", "bf16", "fp16"}

// Whatever the program, the cluster and the slicing, a distributed job computes what the reference computes.
func TestLawProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, err := drawProgram(r)
		if err != nil {
			r.Fatal(err)
		}
		cfg := transpiler.Config{
			Trainers:     rapid.IntRange(1, 3).Draw(r, "trainers"),
			PServers:     rapid.IntRange(1, 5).Draw(r, "pservers"),
			MinBlockSize: rapid.Int64Range(1, 12).Draw(r, "min block"),
			NoSlice:      rapid.IntRange(0, 9).Draw(r, "no slice") == 0,
			SplitMethod:  rapid.SampledFrom([]string{transpiler.RoundRobin, transpiler.HashName}).Draw(r, "split method"),

			CompressGradients:  rapid.SampledFrom(forms).Draw(r, "gradients"),
			CompressParameters: rapid.SampledFrom(forms).Draw(r, "parameters"),
		}
		err = checkLaw(t, p, cfg, "fc_0.b_0")
		if errors.Is(err, fault.NotFinite) {
			r.Skip("a model that diverges beyond what a half type holds")
		}
		if err != nil {
			r.Fatal(fmt.Errorf("%+v: %w", cfg, err))
		}
	})
}

// descend appends param -= rate * step.
func descend(u *optimizer.Update, step layers.Variable) {
	u.Set(u.Param, layers.Sub(u.Param, layers.Mul(step, u.Rate)))
}

// inverseRoot returns 1/sqrt(squares + 0.01), [1].
func inverseRoot(squares layers.Variable) layers.Variable {
	one := layers.FillConstant(squares.Model(), 1, []int64{1})
	return layers.Div(one, layers.Sqrt(layers.Scale(squares, 1, 0.01)))
}

// Updates that a user writes may use norms in other places than clipping does.
var normRules = map[string]optimizer.Rule{
	// The norm of the parameter comes after ops that depend on the norm of the gradient.
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
	// The accumulator changes after an op that depends on a norm, so its own norm cannot be computed earlier.
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
	// The scalar depends on the learning rate, which is computed after the norms.
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

// lookups is a model of two lookups in one table, whose gradient is sparse, and of a wide one beside it.
func lookups(t testing.TB, o *optimizer.Optimizer, table layers.ParamAttr, rows int64, options ...layers.Option) *program.Program {
	options = append(options, layers.Sparse())
	m := layers.NewModel().Seed(3)
	a := layers.Data(m, "a", layers.Dims(1), layers.DType(tensor.Int64))
	b := layers.Data(m, "b", layers.Dims(1), layers.DType(tensor.Int64))
	y := layers.Data(m, "y", layers.Dims(1))
	table.Name = "table"
	deep := layers.Sums([]layers.Variable{layers.Embedding(a, rows, 4, append(options, layers.Param(table), layers.PaddingIndex(1))...),
		layers.Embedding(b, rows, 4, append(options, layers.Param(table))...)})
	wide := layers.Embedding(a, rows, 1, append(options, layers.Param(layers.ParamAttr{Name: "wide"}))...)
	hidden := layers.FC(deep, 3, layers.Act("tanh"))
	cost := layers.SquareErrorCost(layers.Sums([]layers.Variable{layers.FC(hidden, 1), wide}), y)
	o.Minimize(layers.Mean(cost, layers.Name("loss")))
	return built(t, m)
}

// limited are optimizers that change gradients before the update reads them. The limits are low, so that they act.
func limited() map[string]*optimizer.Optimizer {
	rate := optimizer.Exponential(0.1, 2, 0.5, false)
	valueThenGlobal := func(pairs []optimizer.Pair) []optimizer.Pair {
		return optimizer.ByGlobalNorm(0.01)(optimizer.ByValue(-0.02, 0.02)(pairs))
	}
	return map[string]*optimizer.Optimizer{
		"by value":               optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByValue(-0.02, 0.02))),
		"by norm":                optimizer.Momentum(0.1, 0.9, optimizer.ClipGradients(optimizer.ByNorm(0.02))),
		"by global norm":         optimizer.Adagrad(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.02))),
		"by value, global norm":  optimizer.Adam(rate, optimizer.Lazy(), optimizer.ClipGradients(valueThenGlobal)),
		"l2":                     optimizer.SGD(rate, optimizer.Regularize(layers.L2(0.1))),
		"l1, lazily":             optimizer.Adam(0.1, optimizer.Lazy(), optimizer.Regularize(layers.L1(0.1))),
		"l2, by norm":            optimizer.Ftrl(0.1, optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByNorm(0.02))),
		"l1, by the global norm": optimizer.RMSProp(rate, optimizer.Regularize(layers.L1(0.1)), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.02))),
	}
}

// ofTables are all optimizers that take sparse gradients, and those that change them.
func ofTables() map[string]*optimizer.Optimizer {
	rate := optimizer.Exponential(0.1, 2, 0.5, false)
	all := map[string]*optimizer.Optimizer{
		"sgd":              optimizer.SGD(rate),
		"momentum":         optimizer.Momentum(0.1, 0.9),
		"nesterov":         optimizer.Momentum(rate, 0.9, optimizer.Nesterov()),
		"lars":             optimizer.LarsMomentum(0.1, 0.9, 0.1),
		"adagrad":          optimizer.Adagrad(0.1),
		"decayed adagrad":  optimizer.DecayedAdagrad(rate),
		"adadelta":         optimizer.Adadelta(),
		"adam":             optimizer.Adam(rate),
		"lazy adam":        optimizer.Adam(rate, optimizer.Lazy()),
		"adamw":            optimizer.AdamW(rate),
		"adamax":           optimizer.Adamax(0.1),
		"ftrl":             optimizer.Ftrl(0.1),
		"rmsprop":          optimizer.RMSProp(0.1, optimizer.Centered()),
		"lamb":             optimizer.Lamb(0.1),
		"dpsgd":            optimizer.Dpsgd(0.1, 0.5, 4, 0.01, 7),
		"proximal":         optimizer.ProximalGD(0.1, optimizer.Penalties(0.01, 0.02)),
		"proximal adagrad": optimizer.ProximalAdagrad(0.1, optimizer.Penalties(0.01, 0)),
		"scaled loss":      optimizer.ScaleLoss(optimizer.SGD(rate), optimizer.LossScaling{GrowAfter: 1}),
	}
	maps.Copy(all, limited())
	return all
}

// Of sparse gradients only the rows of a batch travel, and back come those that changed, or all.
func TestLawOfSparseGradients(t *testing.T) {
	for name, o := range ofTables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rows := range []int64{2, 9} {
				p := lookups(t, o, layers.ParamAttr{LearningRate: 0.5}, rows)
				for _, cfg := range []transpiler.Config{
					{Trainers: 1, PServers: 1},
					{Trainers: 3, PServers: 2, MinBlockSize: 4},
					{Trainers: 2, PServers: 4, MinBlockSize: 3, SplitMethod: transpiler.HashName, CompressGradients: "bf16"},
					{Trainers: 2, PServers: 3, MinBlockSize: 3, CompressParameters: "bf16", CompressGradients: "topk:0.2:1"},
					{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
				} {
					if err := checkLaw(t, p, cfg, "loss", "table", "fc_0.w_0"); err != nil {
						t.Errorf("%d rows, %+v: %v", rows, cfg, err)
					}
				}
			}
		})
	}
}

// Tables that only servers hold train as others do. Trainers have no variable of a table.
func TestLawOfDistributedTables(t *testing.T) {
	for name, o := range ofTables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rows := range []int64{2, 9} {
				p := lookups(t, o, layers.ParamAttr{LearningRate: 0.5}, rows, layers.Distributed())
				for _, cfg := range []transpiler.Config{
					{Trainers: 1, PServers: 1},
					{Trainers: 3, PServers: 2, MinBlockSize: 4},
					{Trainers: 2, PServers: 4, MinBlockSize: 3, SplitMethod: transpiler.HashName, CompressGradients: "bf16"},
					{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
				} {
					if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
						t.Errorf("%d rows, %+v: %v", rows, cfg, err)
					}
					trainer := transpile(t, p, cfg).Trainer
					for _, q := range []*program.Program{trainer, trainer.Startup} {
						for _, table := range []string{"table", "wide"} {
							if _, has := q.Global().Var(table); has {
								t.Errorf("%+v: trainers hold %s", cfg, table)
							}
						}
					}
				}
			}
		})
	}
}

// Rows of a sparse gradient that is merged over steps and clipped by the global norm are in the block before servers exchange norms, not in that of the update.
func TestLawOfMergedSparseGradients(t *testing.T) {
	inner := optimizer.Momentum(0.1, 0.9, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.02)), optimizer.Regularize(layers.L2(0.1)))
	for _, options := range [][]layers.Option{nil, {layers.Distributed()}} {
		p := lookups(t, optimizer.GradientMerge(inner, 2), layers.ParamAttr{LearningRate: 0.5}, 9, options...)
		for _, cfg := range []transpiler.Config{
			{Trainers: 3, PServers: 2, MinBlockSize: 4},
			{Trainers: 2, PServers: 4, MinBlockSize: 3, SplitMethod: transpiler.HashName, CompressGradients: "bf16"},
		} {
			if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	}
}

// A clip between the gradient and the update keeps the rows of the gradient: only those come back.
func TestChangedRowsOfClippedGradients(t *testing.T) {
	for name, c := range map[string]struct {
		o    *optimizer.Optimizer
		rows bool
	}{
		"by value":       {optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByValue(-1, 1))), true},
		"by norm":        {optimizer.Adagrad(0.1, optimizer.ClipGradients(optimizer.ByNorm(1))), true},
		"by global norm": {optimizer.Adam(0.1, optimizer.Lazy(), optimizer.ClipGradients(optimizer.ByGlobalNorm(1))), true},
		"eager":          {optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByNorm(1))), false},
		"penalty":        {optimizer.SGD(0.1, optimizer.Regularize(layers.L2(0.1))), false},
	} {
		p := lookups(t, c.o, layers.ParamAttr{}, 9)
		result := transpile(t, p, transpiler.Config{Trainers: 2, PServers: 2, MinBlockSize: 4})
		trainer := result.Trainer
		for _, slice := range result.Placement.Of("table") {
			if slice.Striped != (c.rows && name != "by norm") { // a norm of the whole gradient keeps the table on one server
				t.Errorf("%s: a slice in the order of stripes: %v", name, slice.Striped)
			}
		}
		for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2, MinBlockSize: 4, Mode: transpiler.Async}, {Trainers: 2, PServers: 2, MinBlockSize: 4, CompressParameters: "bf16"}} {
			if transpile(t, p, cfg).Placement.Of("table")[0].Striped {
				t.Errorf("%s, %+v: the table comes back whole, in the order of stripes", name, cfg)
			}
		}
		scatters := slices.ContainsFunc(trainer.Global().Ops, func(op *program.Op) bool { return op.Type == "scatter_rows" })
		if scatters != c.rows {
			t.Errorf("%s: only changed rows come back: %v", name, scatters)
		}
	}
}
