package optimizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestRegressionWithSGDHasFluidsOps(t *testing.T) {
	m := layers.NewModel()
	optimizer.SGD(0.01).Minimize(regression(m))
	p := build(t, m)
	want := "mul elementwise_add elementwise_sub square mean " +
		"fill_constant mean_grad square_grad elementwise_sub_grad elementwise_add_grad mul_grad sgd sgd"
	if got := opTypes(p); got != want {
		t.Errorf("main program:\n got %s\nwant %s", got, want)
	}
	want = "uniform_random fill_constant fill_constant"
	if got := opTypes(p.Startup); got != want {
		t.Errorf("startup program: got %s, want %s", got, want)
	}
	wantVars := []string{"x", "y", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1", "square_error_cost_0.tmp_0",
		"square_error_cost_0.tmp_1", "mean_0.tmp_0",
		"mean_0.tmp_0@GRAD", "square_error_cost_0.tmp_1@GRAD", "square_error_cost_0.tmp_0@GRAD", "fc_0.tmp_1@GRAD", "fc_0.tmp_0@GRAD",
		"fc_0.b_0@GRAD", "fc_0.w_0@GRAD", "learning_rate_0"}
	var vars []string
	for _, v := range p.Global().Vars() {
		vars = append(vars, v.Name)
	}
	if !slices.Equal(vars, wantVars) {
		t.Errorf("variables:\n got %v\nwant %v", vars, wantVars)
	}
}

func TestRolesTellTheTranspilerWhatBelongsToWhom(t *testing.T) {
	m := layers.NewModel()
	optimizer.SGD(0.01, optimizer.Regularize(layers.L2(0.1))).Minimize(regression(m))
	var got []string
	for _, op := range build(t, m).Global().Ops {
		line := op.Type
		for i, bit := range []program.Role{program.RoleBackward, program.RoleOptimize, program.RoleLoss} {
			if op.Role().Has(bit) {
				line += []string{" backward", " optimize", " loss"}[i]
			}
		}
		for _, pair := range op.RoleVars() {
			line += " " + pair[0] + "," + pair[1]
		}
		got = append(got, line)
	}
	want := []string{
		"mul", "elementwise_add", "elementwise_sub", "square", "mean loss",
		"fill_constant backward loss", "mean_grad backward", "square_grad backward", "elementwise_sub_grad backward",
		"elementwise_add_grad backward fc_0.b_0,fc_0.b_0@GRAD", "mul_grad backward fc_0.w_0,fc_0.w_0@GRAD",
		"scale optimize fc_0.w_0,fc_0.w_0@GRAD", "sum optimize fc_0.w_0,fc_0.w_0@GRAD", "sgd optimize fc_0.w_0,fc_0.w_0@GRAD",
		"scale optimize fc_0.b_0,fc_0.b_0@GRAD", "sum optimize fc_0.b_0,fc_0.b_0@GRAD", "sgd optimize fc_0.b_0,fc_0.b_0@GRAD",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestWord2VecSharesOneTable(t *testing.T) {
	m := layers.NewModel()
	var words []layers.Variable
	for _, name := range []string{"first", "second", "third", "fourth"} {
		id := layers.Data(m, name, layers.Dims(1), layers.DType(tensor.Int64))
		words = append(words, layers.Embedding(id, 50, 4, layers.Param(layers.ParamAttr{Name: "shared_w"})))
	}
	hidden := layers.FC(layers.Concat(words, 1), 8, layers.Act("sigmoid"))
	next := layers.Data(m, "next", layers.Dims(1), layers.DType(tensor.Int64))
	loss := layers.Mean(layers.CrossEntropy(layers.FC(hidden, 50, layers.Act("softmax")), next))
	optimizer.SGD(0.001).Minimize(loss)
	p := build(t, m)
	var sum *program.Op
	for _, op := range withRole(p, program.RoleBackward) {
		if op.Type == "sum" {
			sum = op
		}
	}
	parts := []string{"shared_w@GRAD@RENAME@0", "shared_w@GRAD@RENAME@1", "shared_w@GRAD@RENAME@2", "shared_w@GRAD@RENAME@3"}
	if sum == nil || !slices.Equal(sum.Inputs["X"], parts) || sum.Out("Out") != "shared_w@GRAD" {
		t.Fatalf("the parts of the shared gradient are not summed: %+v", sum)
	}
	if got := sum.RoleVars(); !slices.Equal(got, [][2]string{{"shared_w", "shared_w@GRAD"}}) {
		t.Errorf("the sum belongs to %v", got)
	}
}

func TestUpdatesAreBuiltAsFluidBuildsThem(t *testing.T) {
	cases := []struct {
		name      string
		optimizer *optimizer.Optimizer
		ops       string   // of roles LRSched and Optimize
		state     []string // persistable variables without the parameters
	}{
		{"sgd", optimizer.SGD(1), "sgd", []string{"learning_rate_0"}},
		{"momentum", optimizer.Momentum(0.1, 0.9, optimizer.Nesterov()), "momentum", []string{"learning_rate_0", "w_velocity_0"}},
		{"adagrad", optimizer.Adagrad(0.1, optimizer.Epsilon(1e-5)), "adagrad", []string{"learning_rate_0", "w_moment_0"}},
		{"decayed adagrad", optimizer.DecayedAdagrad(0.1, optimizer.Decay(0.9)), "decayed_adagrad", []string{"learning_rate_0", "w_moment_0"}},
		{"adam", optimizer.Adam(0.1, optimizer.Betas(0.8, 0.99)), "adam scale scale",
			[]string{"learning_rate_0", "w_moment1_0", "w_moment2_0", "w_beta1_pow_acc_0", "w_beta2_pow_acc_0"}},
		{"adamax", optimizer.Adamax(0.1), "adamax scale", []string{"learning_rate_0", "w_moment_0", "w_inf_norm_0", "w_beta1_pow_acc_0"}},
		{"adadelta", optimizer.Adadelta(), "adadelta", []string{"w_avg_squared_grad_0", "w_avg_squared_update_0"}},
		{"rmsprop", optimizer.RMSProp(0.1, optimizer.WithMomentum(0.5)), "rmsprop", []string{"learning_rate_0", "w_momentum_0", "w_mean_square_0"}},
		{"centered rmsprop", optimizer.RMSProp(0.1, optimizer.Centered()), "rmsprop",
			[]string{"learning_rate_0", "w_momentum_0", "w_mean_square_0", "w_mean_grad_0"}},
		{"adamw", optimizer.AdamW(0.1), "adamw",
			[]string{"learning_rate_0", "w_moment1_0", "w_moment2_0", "w_beta1_pow_acc_0", "w_beta2_pow_acc_0"}},
		{"lamb", optimizer.Lamb(0.1), "lamb",
			[]string{"learning_rate_0", "w_moment1_0", "w_moment2_0", "w_beta1_pow_acc_0", "w_beta2_pow_acc_0"}},
		{"lars", optimizer.LarsMomentum(0.1, 0.9, 0.001), "lars_momentum", []string{"learning_rate_0", "w_velocity_0"}},
		{"dgc momentum of few elements", optimizer.DGCMomentum(0.1, 0.9, 5), "momentum", []string{"learning_rate_0", "w_velocity_0"}},
		{"proximal gd", optimizer.ProximalGD(0.1, optimizer.Penalties(0.1, 0.2)), "proximal_gd", []string{"learning_rate_0"}},
		{"proximal adagrad", optimizer.ProximalAdagrad(0.1), "proximal_adagrad", []string{"learning_rate_0", "w_moment_0"}},
		{"dpsgd", optimizer.Dpsgd(0.1, 1, 16, 1, 0), "dpsgd", []string{"learning_rate_0"}},
		{"ftrl", optimizer.Ftrl(0.1, optimizer.Penalties(0.1, 0.2), optimizer.Power(-0.6)), "ftrl",
			[]string{"learning_rate_0", "w_squared_0", "w_linear_0"}},
		{"exponential decay", optimizer.SGD(optimizer.Exponential(1, 100, 0.5, true)),
			"increment cast fill_constant elementwise_div floor fill_constant elementwise_pow fill_constant elementwise_mul sgd",
			[]string{"@LR_DECAY_COUNTER@"}},
		{"L1", optimizer.SGD(1, optimizer.Regularize(layers.L1(0.1))), "sign scale sum sgd", []string{"learning_rate_0"}},
		{"clip by value, then L2", optimizer.SGD(1, optimizer.ClipGradients(optimizer.ByValue(-1, 1)), optimizer.Regularize(layers.L2(0.1))),
			"clip scale sum sgd", []string{"learning_rate_0"}},
		{"clip by norm", optimizer.SGD(1, optimizer.ClipGradients(optimizer.ByNorm(1))), "clip_by_norm sgd", []string{"learning_rate_0"}},
		{"clip by global norm", optimizer.SGD(1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))),
			"squared_l2_norm sum sqrt fill_constant elementwise_max elementwise_div elementwise_mul sgd", []string{"learning_rate_0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel()
			x := layers.Data(m, "x", layers.Dims(3))
			product := layers.FC(x, 1, layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w"}))
			c.optimizer.Minimize(layers.Mean(product))
			p := build(t, m)
			if got := opTypes(p, program.RoleOptimize, program.RoleLRSched); got != c.ops {
				t.Errorf("ops:\n got %s\nwant %s", got, c.ops)
			}
			var state []string
			for _, v := range p.Global().Vars() {
				if v.Persistable && !v.IsParameter {
					state = append(state, v.Name)
					if _, ok := p.Startup.Global().Var(v.Name); !ok {
						t.Errorf("%s has no initial value", v.Name)
					}
				}
			}
			if !slices.Equal(state, c.state) {
				t.Errorf("state: got %v, want %v", state, c.state)
			}
			for _, op := range withRole(p, program.RoleOptimize) {
				if got := op.RoleVars(); !slices.Equal(got, [][2]string{{"w", "w@GRAD"}}) {
					t.Errorf("%s belongs to %v", op.Type, got)
				}
			}
		})
	}
}

func TestSettingsOfOneParameterHold(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(3))
	own := layers.ParamAttr{LearningRate: 0.5, Regularizer: layers.L1(0.1)}
	first := layers.FC(x, 2, layers.NoBias(), layers.Param(own))
	frozen := layers.FC(first, 2, layers.NoBias(), layers.Param(layers.ParamAttr{Frozen: true}))
	optimizer.SGD(0.1, optimizer.Regularize(layers.L2(0.1))).Minimize(layers.Mean(layers.FC(frozen, 1, layers.NoBias())))
	want := "sign scale sum scale sgd scale sum sgd"
	if got := opTypes(build(t, m), program.RoleOptimize); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A parameter of many elements is updated by the ops that Fluid's optimizer appends.
func TestDGCMomentumChoosesElements(t *testing.T) {
	m := layers.NewModel()
	product := layers.FC(layers.Data(m, "x", layers.Dims(128)), 128, layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w"}))
	optimizer.DGCMomentum(0.1, 0.9, 5, optimizer.RampUp(4, 0.75, 0.99), optimizer.ClipGradients(optimizer.ByNorm(1))).Minimize(layers.Mean(product))
	if got, want := opTypes(build(t, m), program.RoleOptimize, program.RoleLRSched), "clip_by_norm dgc dgc_momentum scale"; got != want {
		t.Errorf("ops %s, want %s", got, want)
	}
	m = layers.NewModel()
	optimizer.DGCMomentum(0.1, 0.9, -1).Minimize(layers.Mean(layers.FC(layers.Data(m, "x", layers.Dims(2)), 1)))
	if _, err := m.Program(); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("begins at -1: %v", err)
	}
}
