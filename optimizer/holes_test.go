package optimizer_test

import (
	"context"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

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
