package transpiler_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// A regression is a model of one layer under construction, with what tests spoil it with.
type regression struct {
	*layers.Model
	x, y, prediction, loss layers.Variable
}

func newRegression() regression {
	r := regression{Model: layers.NewModel()}
	r.x, r.y = layers.Data(r.Model, "x", layers.Dims(3)), layers.Data(r.Model, "y", layers.Dims(1))
	r.prediction = layers.FC(r.x, 1)
	r.loss = layers.Mean(layers.SquareErrorCost(r.prediction, r.y), layers.Name("loss"))
	return r
}

// custom minimizes the loss by steps that change makes out of the gradient.
func (r regression) custom(change func(u *optimizer.Update) layers.Variable) {
	optimizer.Custom(optimizer.InverseTime(0.1, 1, 0.5, false), func(u *optimizer.Update) { descend(u, change(u)) }).Minimize(r.loss)
}

// A loss of several means trains in async mode, where each trainer has whole batches, and with devices. Where backup trainers may drop rows, its op is named.
func TestLossesOfSeveralMeans(t *testing.T) {
	r := newRegression()
	data := layers.OpenDataset(r.Model, "train", layers.Field("words", layers.Dims(4), layers.LoD(1)))
	words := layers.FC(layers.Read(layers.Batch(data, 8))[0], 1)
	optimizer.SGD(0.1).Minimize(layers.Add(layers.Mean(layers.SequencePool(words, "sum")), layers.Mean(words)))
	p, err := r.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]transpiler.Config{"async": {Mode: transpiler.Async}, "devices": {Devices: true}, "backup trainers": {Backups: true}} {
		cfg.Trainers, cfg.PServers = 2, 2
		_, err := transpiler.Transpile(t.Context(), p, cfg)
		if !cfg.Backups && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cfg.Backups && (!errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "op mean") || !strings.Contains(err.Error(), "which rows count is not known")) {
			t.Errorf("%s: %v, want a refusal that names the mean", name, err)
		}
	}
}

// What cannot be spread over machines is refused with the op, the variable and the user's line.
func TestUnsupported(t *testing.T) {
	update := program.RoleOptimize
	for name, test := range map[string]struct {
		spoil func(regression)
		mode  transpiler.Mode
		want  []string
	}{
		"sparse gradient of float64": {func(r regression) {
			words := layers.Data(r.Model, "words", layers.Dims(1), layers.DType(tensor.Int64))
			loss := layers.Mean(layers.Embedding(words, 100, 1, layers.Sparse(), layers.DType(tensor.Float64)))
			optimizer.SGD(0.1).Minimize(loss)
		}, transpiler.Sync, []string{"op sgd", `"embedding_0.w_0@GRAD"`, "rows of float64[100 1]", "drop layers.Sparse", "transpiler/fault_test.go"}},
		"schedule of the loss": {func(r regression) {
			optimizer.SGD(optimizer.Schedule(func(layers.Variable) layers.Variable { return layers.Scale(r.loss, 0.1, 0) })).Minimize(r.loss)
		}, transpiler.Sync, []string{"op scale", `"loss"`, "learning-rate schedule that reads a value of the forward pass"}},
		"update with the batch": {func(r regression) {
			r.custom(func(u *optimizer.Update) layers.Variable { return layers.Mul(u.Grad, layers.Mean(r.prediction)) })
		}, transpiler.Sync, []string{"op mean", "unknown extents"}},
		"update with a scalar of the forward pass": {func(r regression) {
			scalar := layers.Mean(r.prediction)
			r.custom(func(u *optimizer.Update) layers.Variable { return layers.Mul(u.Grad, scalar) })
		}, transpiler.Sync, []string{"op elementwise_mul", "forward value of dims [1]", "mean_0.tmp_0"}},
		"update with a fed variable": {func(r regression) {
			scale := layers.Data(r.Model, "scale", layers.Dims(1), layers.NoBatchDim())
			r.custom(func(u *optimizer.Update) layers.Variable { return layers.Mul(u.Grad, scale) })
		}, transpiler.Sync, []string{"op elementwise_mul", `"scale"`, "fed variable"}},
		"forward op with a result of the update": {func(r regression) {
			var step layers.Variable
			r.custom(func(u *optimizer.Update) layers.Variable { step = layers.Scale(u.Grad, 2, 0); return step })
			layers.Mean(step)
		}, transpiler.Sync, []string{"op mean", "variable that the update computes"}},
		"forward op with the learning rate": {func(r regression) {
			r.custom(func(u *optimizer.Update) layers.Variable { return u.Grad })
			counter, _ := r.Variable(program.LRDecayCounter)
			layers.Cast(counter, tensor.Float32)
		}, transpiler.Sync, []string{"op cast", program.LRDecayCounter}},
		"a gradient that is written again": {func(r regression) {
			pairs := optimizer.AppendBackward(r.loss)
			optimizer.SGD(0.1).Apply(pairs)
			layers.AssignTo(pairs[0].Grad, layers.Scale(pairs[0].Grad, 2, 0))
			optimizer.SGD(0.1).Apply(pairs[:1])
		}, transpiler.Sync, []string{"written again after its update"}},
		"forward op between two updates": {func(r regression) {
			pairs := optimizer.AppendBackward(r.loss)
			optimizer.SGD(0.1).Apply(pairs[:1])
			layers.Mean(pairs[0].Param)
			optimizer.SGD(0.1).Apply(pairs[1:])
		}, transpiler.Sync, []string{"op mean", "after its update and before that of another"}},
		"state of the rows": {func(r regression) {
			seen := r.State("seen", tensor.Float32, []int64{1}, layers.Constant(0))
			layers.AssignTo(seen, layers.Add(seen, r.loss))
			optimizer.SGD(0.1).Minimize(r.loss)
		}, transpiler.Sync, []string{"op assign", `"seen"`, "rows of one trainer"}},
		"state that both sides write": {func(r regression) {
			shared := r.State("shared", tensor.Float32, []int64{3, 1}, layers.Constant(0))
			layers.AssignTo(shared, layers.FillConstant(r.Model, 1, []int64{3, 1}))
			optimizer.Custom(0.1, func(u *optimizer.Update) {
				if u.Param.Name() == "fc_0.w_0" {
					u.Set(shared, u.Grad)
				}
				descend(u, u.Grad)
			}).Minimize(r.loss)
		}, transpiler.Sync, []string{`"shared"`}},
		"schedule of a parameter": {func(r regression) {
			optimizer.SGD(0.1).Minimize(r.loss)
			w, _ := r.Variable("fc_0.b_0")
			r.As(program.RoleLRSched, nil, func() { layers.Scale(w, 2, 0) })
		}, transpiler.Sync, []string{"op scale", `"fc_0.b_0"`, "reads a result of the update"}},
		"async clipping that reads the rate": {func(r regression) {
			r.custom(func(u *optimizer.Update) layers.Variable {
				return layers.Mul(u.Grad, layers.Mul(layers.SquaredNorm(u.Grad), u.Rate))
			})
		}, transpiler.Async, []string{"op elementwise_mul", "reads a variable of servers"}},
		"async update by a norm": {func(r regression) {
			optimizer.Custom(0.1, func(u *optimizer.Update) {
				u.Set(u.Param, layers.Mul(u.Param, layers.SquaredNorm(u.Grad)))
				u.Op("elementwise_mul", layers.In{"X": {u.Param}, "Y": {layers.SquaredNorm(u.Grad)}}, nil, layers.In{"Out": {u.Param}})
			}).Minimize(r.loss)
		}, transpiler.Async, []string{"op elementwise_mul", "use sync mode"}},
		"check of gradients by one trainer": {func(r regression) {
			pairs := optimizer.AppendBackward(r.loss)
			grad, found := []layers.Variable{pairs[0].Grad}, layers.NewVariables(r.Model, "found", 1)
			r.As(program.RoleBackward, nil, func() {
				layers.OpInto(r.Model, "check_finite_and_unscale", layers.In{"X": grad, "Scale": {layers.FillConstant(r.Model, 2, []int64{1})}}, nil, layers.In{"Out": grad, "FoundInfinite": found})
			})
			optimizer.SGD(0.1).Apply(pairs)
		}, transpiler.Sync, []string{"op check_finite_and_unscale", "op_role Optimize"}},
		"update of no loss": {func(r regression) {
			r.As(update, nil, func() { layers.Increment(r.State("n", tensor.Int64, []int64{1}, layers.Constant(0)), 1) })
		}, transpiler.Sync, []string{"without the gradient of a loss"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegression()
			test.spoil(r)
			p := built(t, r.Model)
			_, err := transpiler.Transpile(t.Context(), p, transpiler.Config{Trainers: 2, PServers: 2, Mode: test.mode})
			if err == nil {
				t.Fatal("was transpiled")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if name != "update of no loss" && !strings.HasPrefix(err.Error(), "transpiler/fault_test.go:") {
				t.Errorf("got %v, want the line of the op", err)
			}
		})
	}
}

func TestUpdateOpsWithBlocks(t *testing.T) {
	for _, ownedByUpdate := range []bool{true, false} {
		r := newRegression()
		optimizer.SGD(0.1).Minimize(r.loss)
		p := built(t, r.Model)
		last := p.Global().Ops[len(p.Global().Ops)-1]
		inner, owner := p.NewBlock(p.Global()).Append(last.Clone()), last
		if ownedByUpdate {
			inner.SetRole(program.RoleForward)
		} else {
			owner = p.Global().Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"x"}}})
		}
		owner.SetAttr("__sub_block", program.BlockIndex(1))
		_, err := transpiler.Transpile(t.Context(), p, twoServers)
		if err == nil || !strings.Contains(err.Error(), "sub-block") {
			t.Errorf("got %v, want a fault that names the sub-block", err)
		}
	}
}

// Rows that trainers would have to merge among themselves are refused before a role starts, with the lookup's line and the flag to leave out.
func TestSparseGradientsThatTrainersMerge(t *testing.T) {
	p := lookups(t, optimizer.SGD(0.1), layers.ParamAttr{}, 9)
	for flag, cfg := range map[string]transpiler.Config{
		"--merge-hosts": {Trainers: 2, PServers: 2, MergeHosts: true},
	} {
		_, err := transpiler.Transpile(t.Context(), p, cfg)
		if f := new(fault.Fault); !errors.As(err, &f) || f.Kind != fault.Unsupported || !strings.Contains(err.Error(), "leave out "+flag) ||
			!strings.HasPrefix(err.Error(), "transpiler/law_test.go:") {
			t.Errorf("%s: %v", flag, err)
		}
		dense := perceptron(t, optimizer.SGD(0.1))
		if _, err := transpiler.Transpile(t.Context(), dense, cfg); err != nil {
			t.Errorf("%s of dense gradients: %v", flag, err)
		}
	}
}
