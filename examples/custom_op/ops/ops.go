// Package ops registers two ops that EDL does not have: snake, an activation with a gradient, and lion_direction, the heart of an update rule. It
// also has the functions that models call.
package ops

import (
	"math"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:      "snake",
		Doc:       "The activation of Liu et al. (2020), which learns what repeats itself: Out = X + sin(X)^2.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "float"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return s.IsFloat("X") },
		Cost:      opkit.PerElement(20),
		Bind:      opkit.BindFloats("X", bindSnake[float32], bindSnake[float64]),
		RowSliced: true,
	}, opkit.Gradient{
		Doc:    "dX = dOut * (1 + sin(2*X)).",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(30),
		Bind:   opkit.BindFloats("X", bindSnakeGrad[float32], bindSnakeGrad[float64]),
	})
	ops.Register(ops.Def{
		Type:    "lion_direction",
		Doc:     "The direction of a step of Lion (Chen et al. 2023): Out = sign(beta*Velocity + (1-beta)*Grad).",
		Inputs:  []ops.Slot{{Name: "Grad", Doc: "float"}, {Name: "Velocity", Doc: "of the shape and type of Grad"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "-1, 0 or 1, of the shape and type of Grad"}},
		Attrs:   []ops.Attr{{Name: "beta", Doc: "share of the velocity", Default: float32(0.9)}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "Grad")
			return s.IsFloat("Grad")
		},
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Grad", bindDirection[float32], bindDirection[float64]),
		RowSliced: true, // so that parameter servers may share the rows of a parameter
	})
}

// Snake applies the activation.
func Snake(x layers.Variable) layers.Variable {
	return layers.Op(x.Model(), "snake", layers.In{"X": {x}}, nil).One("Out")
}

// Lion is the update rule
//
//	p -= rate * sign(beta1*v + (1-beta1)*g)
//	v  = beta2*v + (1-beta2)*g
//
// for optimizer.Custom. It is part of the program: parameter servers run it because their binary has the op.
func Lion(beta1, beta2 float64) optimizer.Rule {
	return func(u *optimizer.Update) {
		velocity := u.State("velocity", 0)
		direction := layers.Op(u.Grad.Model(), "lion_direction", layers.In{"Grad": {u.Grad}, "Velocity": {velocity}},
			layers.Attrs{"beta": beta1}).One("Out")
		u.Set(u.Param, layers.Sub(u.Param, layers.Mul(direction, u.Rate)))
		u.Set(velocity, layers.Add(layers.Scale(velocity, beta2, 0), layers.Scale(u.Grad, 1-beta2, 0)))
	}
}

func bindSnake[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	return opkit.Loop(b, x.Len(), func(from, to int) {
		x, out := tensor.Data[T](x), tensor.Data[T](out)
		for i := from; i < to; i++ {
			sine := math.Sin(float64(x[i]))
			out[i] = T(float64(x[i]) + sine*sine)
		}
	})
}

func bindSnakeGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	return opkit.Loop(b, x.Len(), func(from, to int) {
		x, dout, dx := tensor.Data[T](x), tensor.Data[T](dout), tensor.Data[T](dx)
		for i := from; i < to; i++ {
			dx[i] = T(float64(dout[i]) * (1 + math.Sin(2*float64(x[i]))))
		}
	})
}

func bindDirection[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	grad, velocity, out, beta := b.In("Grad"), b.In("Velocity"), b.Out("Out"), T(b.Float("beta"))
	return opkit.Loop(b, grad.Len(), func(from, to int) {
		grad, velocity, out := tensor.Data[T](grad), tensor.Data[T](velocity), tensor.Data[T](out)
		for i := from; i < to; i++ {
			switch d := beta*velocity[i] + (1-beta)*grad[i]; {
			case d > 0:
				out[i] = 1
			case d < 0:
				out[i] = -1
			default:
				out[i] = 0
			}
		}
	})
}
