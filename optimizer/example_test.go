package optimizer_test

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// line is the model y = w x + b with its square error.
func line() (m *layers.Model, loss layers.Variable) {
	m = layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1))
	y := layers.Data(m, "y", layers.Dims(1))
	zero := layers.ParamAttr{Name: "w", Initializer: layers.Constant(0)}
	prediction := layers.FC(x, 1, layers.Param(zero), layers.Bias(layers.ParamAttr{Name: "b"}))
	return m, layers.Mean(layers.SquareErrorCost(prediction, y))
}

// train runs a model on the points of y = 3x + 1 and prints the parameters that it learned.
func train(m *layers.Model, steps int) {
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	x, _ := tensor.FromSlice([]float32{-1, 0, 1, 2}, 4, 1)
	y, _ := tensor.FromSlice([]float32{-2, 1, 4, 7}, 4, 1)
	local := executor.New()
	defer local.Close()
	var learned []*tensor.Tensor
	for range steps {
		if learned, err = local.Run(context.Background(), p, executor.Feed{"x": x, "y": y}, "w", "b"); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("y = %.2f x + %.2f\n", learned[0].Float32s()[0], learned[1].Float32s()[0])
}

func Example() {
	m, loss := line()
	optimizer.SGD(0.1).Minimize(loss)
	train(m, 200)
	// Output: y = 3.00 x + 1.00
}

func ExampleAdam() {
	m, loss := line()
	optimizer.Adam(0.1, optimizer.Betas(0.9, 0.99)).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

// A schedule takes the place of a number.
func ExamplePiecewise() {
	m, loss := line()
	optimizer.Momentum(optimizer.Piecewise([]int{50, 100}, []float64{0.1, 0.05, 0.01}), 0.5).Minimize(loss)
	train(m, 200)
	// Output: y = 3.00 x + 1.00
}

func ExampleByGlobalNorm() {
	m, loss := line()
	optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5)), optimizer.Regularize(layers.L2(0.1))).Minimize(loss)
	train(m, 400)
	// Output: y = 2.90 x + 1.00
}

// An update rule is built from layers, one parameter at a time. This one is gradient descent whose step shrinks where
// gradients were large before.
func ExampleCustom() {
	rule := func(u *optimizer.Update) {
		total := u.State("total", 0.01)
		u.Set(total, layers.Add(total, layers.Square(u.Grad)))
		step := layers.Mul(layers.Div(u.Grad, layers.Sqrt(total)), u.Rate)
		u.Set(u.Param, layers.Sub(u.Param, step))
	}
	m, loss := line()
	optimizer.Custom(0.5, rule).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

// A Schedule of one's own is a function of the step.
func ExampleSchedule() {
	falling := optimizer.Schedule(func(step layers.Variable) layers.Variable {
		return layers.Scale(layers.Exp(layers.Scale(step, -0.01, 0)), 0.1, 0)
	})
	m, loss := line()
	optimizer.SGD(falling).Minimize(loss)
	train(m, 300)
	// Output: y = 3.00 x + 1.00
}

// Gradients can be changed between the backward pass and the updates.
func ExampleAppendBackward() {
	m, loss := line()
	pairs := optimizer.AppendBackward(loss)
	for i, p := range pairs {
		p.Build(func() { pairs[i].Grad = layers.Scale(p.Grad, 0.5, 0) })
	}
	optimizer.SGD(0.2).Apply(pairs)
	train(m, 200)
	// Output: y = 3.00 x + 1.00
}
