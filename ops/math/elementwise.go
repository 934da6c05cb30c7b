package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/bind"
	"github.com/edl-go/edl/ops/internal/infer"
	"github.com/edl-go/edl/ops/internal/pair"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// RowSliced holds for an elementwise op when Y has the dims of X, whose rows it then shares, or one element, which serves
// every row. A Y that lies over axis 0 alone, or over later axes, is not parameter-shaped; the transpiler looks at the dims.

func init() {
	pair.Register(elementwise("elementwise_add", "X + Y", bind.Numbers("X",
		bindElementwise(kernel.Add[float32]), bindElementwise(kernel.Add[float64]), bindElementwise(kernel.Add[int32]), bindElementwise(kernel.Add[int64]))),
		elementwiseGradient("dX = dOut, dY = dOut summed over the axes that Y does not have.", []string{"Y"}, nil,
			bindElementwiseGrad(kernel.AddGrad[float32]), bindElementwiseGrad(kernel.AddGrad[float64])))
	pair.Register(elementwise("elementwise_sub", "X - Y", bind.Numbers("X",
		bindElementwise(kernel.Sub[float32]), bindElementwise(kernel.Sub[float64]), bindElementwise(kernel.Sub[int32]), bindElementwise(kernel.Sub[int64]))),
		elementwiseGradient("dX = dOut, dY = -dOut summed over the axes that Y does not have.", []string{"Y"}, nil,
			bindElementwiseGrad(kernel.SubGrad[float32]), bindElementwiseGrad(kernel.SubGrad[float64])))
	pair.Register(elementwise("elementwise_mul", "X * Y", bind.Numbers("X",
		bindElementwise(kernel.Mul[float32]), bindElementwise(kernel.Mul[float64]), bindElementwise(kernel.Mul[int32]), bindElementwise(kernel.Mul[int64]))),
		elementwiseGradient("dX = dOut*Y, dY = dOut*X summed over the axes that Y does not have.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(kernel.MulGrad[float32]), bindElementwiseGrad(kernel.MulGrad[float64])))
	pair.Register(elementwise("elementwise_div", "X / Y; for integers truncated, and 0 where Y is 0", bind.Numbers("X",
		bindElementwise(kernel.Div[float32]), bindElementwise(kernel.Div[float64]), bindElementwise(kernel.Div[int32]), bindElementwise(kernel.Div[int64]))),
		elementwiseGradient("dX = dOut/Y, dY = -dOut*Out/Y summed over the axes that Y does not have.", []string{"Y"}, []string{"Out"},
			bindElementwiseGrad(kernel.DivGrad[float32]), bindElementwiseGrad(kernel.DivGrad[float64])))
	pair.Register(elementwise("elementwise_max", "max(X, Y)", bind.Numbers("X",
		bindElementwise(kernel.Max[float32]), bindElementwise(kernel.Max[float64]), bindElementwise(kernel.Max[int32]), bindElementwise(kernel.Max[int64]))),
		elementwiseGradient("dOut goes to dX where X > Y, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(kernel.MaxGrad[float32]), bindElementwiseGrad(kernel.MaxGrad[float64])))
	pair.Register(elementwise("elementwise_min", "min(X, Y)", bind.Numbers("X",
		bindElementwise(kernel.Min[float32]), bindElementwise(kernel.Min[float64]), bindElementwise(kernel.Min[int32]), bindElementwise(kernel.Min[int64]))),
		elementwiseGradient("dOut goes to dX where X < Y, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(kernel.MinGrad[float32]), bindElementwiseGrad(kernel.MinGrad[float64])))

	pow := elementwise("elementwise_pow", "X**Y, through which no gradient flows", bind.Floats("X",
		bindElementwise(kernel.Pow[float32]), bindElementwise(kernel.Pow[float64])))
	pow.Infer = func(s *ops.Shapes) error {
		if err := s.IsFloat("X"); err != nil {
			return err
		}
		return inferBroadcast(s)
	}
	ops.Register(pow)
}

func elementwise(name, formula string, binder bind.Binder) ops.Def {
	return ops.Def{
		Type:      name,
		Doc:       "Combines each element of X with the element of Y that lies over it: Out = " + formula + ".",
		Inputs:    []ops.Slot{{Name: "X", Doc: "numbers"}, {Name: "Y", Doc: "of the type of X; its dims follow each other in those of X"}},
		Outputs:   out("Out", "of the shape and type of X"),
		Attrs:     []ops.Attr{axisAttr},
		Infer:     inferElementwise,
		Cost:      infer.PerElement(1),
		Bind:      binder,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	}
}

func inferElementwise(s *ops.Shapes) error {
	if err := infer.Type(s, "X", s.In("X").DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	return inferBroadcast(s)
}

func elementwiseGradient(doc string, inputs, outputs []string, f32, f64 bind.Binder) pair.Gradient {
	g := pair.Gradient{
		Doc: doc, Inputs: inputs, Outputs: outputs, Wrt: []string{"X", "Y"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    infer.PerElement(2),
		Bind:    bind.Floats("Out@GRAD", f32, f64),
	}
	if inputs[0] != "X" {
		g.StandIn = map[string]string{"X": "Out@GRAD"}
	}
	return g
}

func bindElementwise[T kernel.Number](f func(out, x, y []T, pre, n, post int)) bind.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
		pre, n, post := layout(b, x.Dims(), y.Dims())
		return func(context.Context) error {
			f(tensor.Data[T](to), tensor.Data[T](x), tensor.Data[T](y), pre, n, post)
			return nil
		}, nil
	}
}

func bindElementwiseGrad[T tensor.Float](f func(dx, dy, x, y, out, dout []T, pre, n, post int)) bind.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to, dout := b.In("X"), b.In("Y"), b.In("Out"), b.In("Out@GRAD")
		dx, dy := b.Out("X@GRAD"), b.Out("Y@GRAD")
		pre, n, post := layout(b, dout.Dims(), y.Dims())
		return func(context.Context) error {
			f(bind.Data[T](dx), bind.Data[T](dy), bind.Data[T](x), tensor.Data[T](y), bind.Data[T](to), tensor.Data[T](dout), pre, n, post)
			return nil
		}, nil
	}
}
