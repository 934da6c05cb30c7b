package optimizer_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var double = layers.DType(tensor.Float64)

func TestGradientsOfNetsEqualCentralDifferences(t *testing.T) {
	label := integers([]int64{4, 1}, 0, 2, 1, 2)
	cases := []struct {
		name  string
		feeds map[string]*tensor.Tensor
		build func(m *layers.Model) layers.Variable // the loss
	}{
		{"two layers", map[string]*tensor.Tensor{"x": floats(1, 4, 3), "y": floats(2, 4, 2)}, func(m *layers.Model) layers.Variable {
			x, y := layers.Data(m, "x", layers.Dims(3), double), layers.Data(m, "y", layers.Dims(2), double)
			return layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(x, 5, layers.Act("tanh")), 2), y))
		}},
		{"a weight used three times", map[string]*tensor.Tensor{"x": floats(1, 4, 3)}, func(m *layers.Model) layers.Variable {
			shared := layers.Param(layers.ParamAttr{Name: "w"})
			h := layers.Data(m, "x", layers.Dims(3), double)
			for range 3 {
				h = layers.FC(h, 3, shared, layers.Act("sigmoid"))
			}
			return layers.Mean(layers.Square(h))
		}},
		{"one variable on both sides", map[string]*tensor.Tensor{"x": floats(1, 4, 3)}, func(m *layers.Model) layers.Variable {
			h := layers.FC(layers.Data(m, "x", layers.Dims(3), double), 3)
			return layers.Mean(layers.Mul(h, layers.Sums([]layers.Variable{h, h})))
		}},
		{"softmax and cross entropy", map[string]*tensor.Tensor{"x": floats(1, 4, 5), "label": label}, func(m *layers.Model) layers.Variable {
			x, y := layers.Data(m, "x", layers.Dims(5), double), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
			return layers.Mean(layers.CrossEntropy(layers.FC(x, 3, layers.Act("softmax")), y))
		}},
		{"softmax_with_cross_entropy beside a use of its softmax", map[string]*tensor.Tensor{"x": floats(1, 4, 5), "label": label},
			func(m *layers.Model) layers.Variable {
				x, y := layers.Data(m, "x", layers.Dims(5), double), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
				loss, probabilities := layers.SoftmaxWithCrossEntropy(layers.FC(x, 3), y)
				layers.Accuracy(probabilities, y)
				return layers.Mean(loss)
			}},
		{"a part of a split that is not used", map[string]*tensor.Tensor{"x": floats(1, 4, 5)}, func(m *layers.Model) layers.Variable {
			x := layers.Data(m, "x", layers.Dims(5), double)
			parts := layers.Split(layers.FC(x, 6), 3, 1)
			return layers.Mean(layers.Square(layers.Concat([]layers.Variable{parts[2], parts[0]}, 1)))
		}},
		{"pictures", map[string]*tensor.Tensor{"x": floats(1, 4, 2, 6, 6), "label": label}, func(m *layers.Model) layers.Variable {
			x, y := layers.Data(m, "x", layers.Dims(2, 6, 6), double), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
			h := layers.BatchNorm(layers.SimpleImgConvPool(x, 3, 3, 2, 2, layers.Act("tanh"), layers.Padding(1, 1)))
			return layers.Mean(layers.CrossEntropy(layers.FC(layers.Dropout(h, 0.3), 3, layers.Act("softmax")), y))
		}},
		{"embeddings and layer norm", map[string]*tensor.Tensor{"a": integers([]int64{4, 1}, 1, 0, 3, 1), "b": integers([]int64{4, 1}, 3, 3, 2, 0)},
			func(m *layers.Model) layers.Variable {
				table := layers.Param(layers.ParamAttr{Name: "table"})
				a, b := layers.Data(m, "a", layers.Dims(1), layers.DType(tensor.Int64)), layers.Data(m, "b", layers.Dims(1), layers.DType(tensor.Int64))
				both := layers.Concat([]layers.Variable{layers.Embedding(a, 4, 3, table, double), layers.Embedding(b, 4, 3, table, double)}, 1)
				return layers.ReduceMean(layers.Square(layers.LayerNorm(layers.Transpose(layers.Reshape(both, []int64{-1, 2, 3}), []int{0, 2, 1}))))
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel().Seed(5)
			loss := c.build(m)
			checkGradients(t, m, loss, c.feeds)
		})
	}
}

func TestGradientsStopWhereTheyAreStopped(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(3))
	stopped := layers.FC(x, 3, layers.Name("stopped")).StopGradient()
	optimizer.AppendBackward(layers.Mean(layers.Mul(stopped, layers.FC(x, 3, layers.Name("open")))))
	p := build(t, m)
	for _, v := range p.Global().Vars() {
		if strings.HasPrefix(v.Name, "stopped") && strings.HasSuffix(v.Name, program.GradSuffix) {
			t.Errorf("%s exists", v.Name)
		}
	}
	if _, ok := p.Global().Var("open.w_0@GRAD"); !ok {
		t.Error("the open branch has no gradient")
	}
}

func TestParametersThatLossDoesNotDependOnAreLeftAlone(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(3))
	layers.FC(x, 3, layers.Name("aside"))
	pairs := optimizer.SGD(0.1).Minimize(layers.Mean(layers.FC(x, 1, layers.Name("used"))))
	build(t, m)
	if len(pairs) != 2 || pairs[0].Param.Name() != "used.w_0" || pairs[1].Grad.Name() != "used.b_0@GRAD" {
		t.Errorf("got %v", pairs)
	}
}

func TestGradientWithRespectToData(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2), double)
	pairs := optimizer.AppendBackward(layers.ReduceSum(layers.Square(x)), x)
	p := build(t, m)
	value := floats(3, 2, 2)
	machine := start(t, p, map[string]*tensor.Tensor{"x": value})
	machine.run(p.Global().Ops)
	for i, grad := range machine.Vars[pairs[0].Grad.Name()].Float64s() {
		if grad != 2*value.Float64s()[i] {
			t.Errorf("gradient %d is %v, want %v", i, grad, 2*value.Float64s()[i])
		}
	}
}

func TestMistakesInTraining(t *testing.T) {
	cases := []struct {
		name  string
		build func(m *layers.Model, x layers.Variable)
		says  string
	}{
		{"loss of many elements", func(m *layers.Model, x layers.Variable) { optimizer.SGD(1).Minimize(layers.FC(x, 1)) }, "want one element"},
		{"second backward pass", func(m *layers.Model, x layers.Variable) {
			loss := layers.Mean(layers.FC(x, 1))
			optimizer.SGD(1).Minimize(loss)
			optimizer.SGD(1).Minimize(loss)
		}, "second backward pass"},
		{"second loss", func(m *layers.Model, x layers.Variable) {
			h := layers.FC(x, 1)
			optimizer.SGD(1).Minimize(layers.Mean(h))
			optimizer.SGD(1).Minimize(layers.Mean(layers.Square(h)))
		}, "build a model for each loss"},
		{"nothing to train", func(m *layers.Model, x layers.Variable) { optimizer.SGD(1).Minimize(layers.Mean(x)) }, "no trainable parameter"},
		{"parameter of another model", func(m *layers.Model, x layers.Variable) {
			optimizer.SGD(1).Minimize(layers.Mean(layers.FC(x, 1)), layers.Data(layers.NewModel(), "z"))
		}, "another model"},
		{"value written twice", func(m *layers.Model, x layers.Variable) {
			h := layers.FC(x, 1)
			layers.AssignTo(h, layers.Relu(h))
			optimizer.SGD(1).Minimize(layers.Mean(h))
		}, "second value"},
		{"unknown option", func(m *layers.Model, x layers.Variable) {
			optimizer.SGD(1, optimizer.Nesterov()).Minimize(layers.Mean(layers.FC(x, 1)))
		}, "option Nesterov"},
		{"rate", func(m *layers.Model, x layers.Variable) {
			optimizer.SGD(math.Inf(1)).Minimize(layers.Mean(layers.FC(x, 1)))
		}, "learning rate +Inf"},
		{"rule with a mistake", func(m *layers.Model, x layers.Variable) {
			optimizer.Custom(1, func(u *optimizer.Update) { layers.Scale(u.Rate, 1, 0, layers.IsTest()) }).Minimize(layers.Mean(layers.FC(x, 1)))
		}, "option IsTest"},
		{"no rule", func(m *layers.Model, x layers.Variable) {
			optimizer.Custom(1, nil).Minimize(layers.Mean(layers.FC(x, 1)))
		}, "no rule"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel()
			c.build(m, layers.Data(m, "x", layers.Dims(3)))
			_, err := m.Program()
			if err == nil || strings.Contains(err.Error(), "\n") ||
				!strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "optimizer/backward_test.go:") {
				t.Errorf("got %v, want one mistake at a line of this file that says %q", err, c.says)
			}
		})
	}
}

// An op of two outputs, Double = 2X and Triple = 3X, whose gradient needs the gradients of both.
func init() {
	outputs := []ops.Slot{{Name: "Double", Doc: "2X"}, {Name: "Triple", Doc: "3X"}}
	ops.Register(ops.Def{Type: "test_multiples", Doc: "Multiplies.", Inputs: []ops.Slot{{Name: "X", Doc: "any"}}, Outputs: outputs,
		Infer:    func(s *ops.Shapes) error { s.Like("Double", "X"); s.Like("Triple", "X"); return nil },
		Gradient: ops.StandardGrad(nil, nil, []string{"X"}),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			return func(context.Context) error {
				for i, x := range b.In("X").Float64s() {
					b.Out("Double").Float64s()[i], b.Out("Triple").Float64s()[i] = 2*x, 3*x
				}
				return nil
			}, nil
		}})
	ops.Register(ops.Def{Type: "test_multiples_grad", Class: ops.Backward, Doc: "The gradient of test_multiples.",
		Inputs:  []ops.Slot{{Name: "Double@GRAD", Doc: "of Double"}, {Name: "Triple@GRAD", Doc: "of Triple"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "of X", Dispensable: true}},
		Infer:   func(s *ops.Shapes) error { s.Like("X@GRAD", "Double@GRAD"); return nil },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			return func(context.Context) error {
				for i, g := range b.In("Double@GRAD").Float64s() {
					b.Out("X@GRAD").Float64s()[i] = 2*g + 3*b.In("Triple@GRAD").Float64s()[i]
				}
				return nil
			}, nil
		}})
}

func TestGradientThatDidNotArriveIsZero(t *testing.T) {
	m := layers.NewModel()
	h := layers.FC(layers.Data(m, "x", layers.Dims(3), double), 2)
	out := layers.Op(m, "test_multiples", layers.In{"X": {h}}, nil)
	loss := layers.Mean(layers.Square(out.One("Triple")))
	checkGradients(t, m, loss, map[string]*tensor.Tensor{"x": floats(1, 4, 3)})
	zeros := 0
	for _, op := range build(t, m).Global().Ops {
		if op.Type == "fill_zeros_like" {
			zeros++
			if op.Out("Out") != program.GradName(out.One("Double").Name()) || op.Role() != program.RoleBackward {
				t.Errorf("zeros go to %s with role %d", op.Out("Out"), op.Role())
			}
		}
	}
	if zeros != 1 {
		t.Errorf("%d gradients are filled with zeros, want 1", zeros)
	}
}

func TestOpWithoutArrivedGradientsIsSkipped(t *testing.T) {
	m := layers.NewModel()
	h := layers.FC(layers.Data(m, "x", layers.Dims(3)), 2)
	layers.Op(m, "test_multiples", layers.In{"X": {h}}, nil)
	optimizer.SGD(1).Minimize(layers.Mean(h))
	for _, op := range build(t, m).Global().Ops {
		if op.Type == "test_multiples_grad" || op.Type == "fill_zeros_like" {
			t.Errorf("%s was appended", op.Type)
		}
	}
}
