package optimizer_test

import (
	"context"
	"fmt"
	"math"

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

// A custom Schedule is a function of the step.
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

func ExampleSGD() {
	m, loss := line()
	optimizer.SGD(0.1).Minimize(loss)
	train(m, 200)
	// Output: y = 3.00 x + 1.00
}

func ExampleMomentum() {
	m, loss := line()
	optimizer.Momentum(0.05, 0.9, optimizer.Nesterov()).Minimize(loss)
	train(m, 200)
	// Output: y = 3.00 x + 1.00
}

func ExampleAdagrad() {
	m, loss := line()
	optimizer.Adagrad(0.5).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

func ExampleDecayedAdagrad() {
	m, loss := line()
	optimizer.DecayedAdagrad(0.01, optimizer.Decay(0.95)).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

func ExampleAdadelta() {
	m, loss := line()
	optimizer.Adadelta(optimizer.Decay(0.9), optimizer.Epsilon(1e-3)).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

func ExampleAdamax() {
	m, loss := line()
	optimizer.Adamax(0.1).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

func ExampleRMSProp() {
	m, loss := line()
	optimizer.RMSProp(0.002, optimizer.Centered()).Minimize(loss)
	train(m, 3000)
	// Output: y = 3.00 x + 1.00
}

func ExampleFtrl() {
	m, loss := line()
	optimizer.Ftrl(0.5).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

func ExampleAdamW() {
	m, loss := line()
	optimizer.AdamW(0.1, optimizer.WeightDecay(0)).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

func ExampleLamb() {
	m, loss := line()
	optimizer.Lamb(optimizer.Exponential(0.05, 100, 0.5, false), optimizer.WeightDecay(0)).Minimize(loss)
	train(m, 1500)
	// Output: y = 3.00 x + 1.00
}

// The rate is that of a parameter with a norm of 1 and a gradient with a norm of 1.
func ExampleLarsMomentum() {
	m, loss := line()
	optimizer.LarsMomentum(optimizer.Exponential(0.05, 100, 0.5, false), 0.5, 1, optimizer.WeightDecay(1e-6)).Minimize(loss)
	train(m, 1500)
	// Output: y = 3.00 x + 1.00
}

func ExampleProximalGD() {
	m, loss := line()
	optimizer.ProximalGD(0.1, optimizer.Penalties(1e-4, 1e-4)).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

func ExampleProximalAdagrad() {
	m, loss := line()
	optimizer.ProximalAdagrad(0.5, optimizer.Penalties(1e-4, 1e-4)).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

// Without noise, Dpsgd is descent along gradients of limited norm.
func ExampleDpsgd() {
	m, loss := line()
	optimizer.Dpsgd(0.1, 1, 16, 0, 0).Minimize(loss)
	train(m, 1000)
	// Output: y = 3.00 x + 1.00
}

// Each element of a gradient is held within the bounds.
func ExampleByValue() {
	m, loss := line()
	optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByValue(-0.5, 0.5))).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

// Each gradient keeps its direction, and a length of at most 0.5.
func ExampleByNorm() {
	m, loss := line()
	optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByNorm(0.5))).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

// printRates prints the learning rate that a schedule gives in some steps.
func printRates(schedule optimizer.Schedule, steps ...int) {
	var rate layers.Variable
	m, loss := line()
	optimizer.SGD(optimizer.Schedule(func(step layers.Variable) layers.Variable {
		rate = schedule(step)
		return rate
	})).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	x, _ := tensor.FromSlice([]float32{0}, 1, 1)
	local := executor.New()
	defer local.Close()
	for n := range steps[len(steps)-1] + 1 {
		fetched, err := local.Run(context.Background(), p, executor.Feed{"x": x, "y": x}, rate.Name())
		if err != nil {
			fmt.Println(err)
			return
		}
		if n == steps[0] {
			fmt.Printf("step %d: %.3g\n", n, fetched[0].Float32s()[0])
			steps = steps[1:]
		}
	}
}

// The rate is multiplied by 0.5 every 10 steps, at once rather than little by little.
func ExampleExponential() {
	printRates(optimizer.Exponential(0.8, 10, 0.5, true), 0, 9, 10, 20)
	// Output:
	// step 0: 0.8
	// step 9: 0.8
	// step 10: 0.4
	// step 20: 0.2
}

func ExampleNaturalExp() {
	printRates(optimizer.NaturalExp(0.8, 10, 0.5, false), 0, 10, 20)
	// Output:
	// step 0: 0.8
	// step 10: 0.485
	// step 20: 0.294
}

func ExampleInverseTime() {
	printRates(optimizer.InverseTime(0.8, 10, 1, false), 0, 10, 30)
	// Output:
	// step 0: 0.8
	// step 10: 0.4
	// step 30: 0.2
}

// A straight line to 0.1 in 10 steps, which stays there.
func ExamplePolynomial() {
	printRates(optimizer.Polynomial(0.8, 10, 0.1, 1, false), 0, 5, 10, 20)
	// Output:
	// step 0: 0.8
	// step 5: 0.45
	// step 10: 0.1
	// step 20: 0.1
}

// Ten epochs of two steps each.
func ExampleCosine() {
	printRates(optimizer.Cosine(0.8, 2, 10), 0, 10, 18)
	// Output:
	// step 0: 0.8
	// step 10: 0.4
	// step 18: 0.0196
}

// The rate rises for 100 steps, and falls with the square root of the step from then on.
func ExampleNoam() {
	printRates(optimizer.Noam(64, 100), 9, 99, 399)
	// Output:
	// step 9: 0.00125
	// step 99: 0.0125
	// step 399: 0.00625
}

// A schedule starts after ten steps of a rising rate.
func ExampleLinearWarmup() {
	printRates(optimizer.LinearWarmup(0.5, 10, 0, 0.5), 0, 5, 10, 20)
	// Output:
	// step 0: 0
	// step 5: 0.25
	// step 10: 0.5
	// step 20: 0.5
}

// A step whose gradients are not finite changes nothing but the scale.
func ExampleScaleLoss() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1))
	price := layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "w", Initializer: layers.Constant(1)}), layers.NoBias())
	optimizer.ScaleLoss(optimizer.SGD(0.5), optimizer.LossScaling{Initial: 8, DropAfter: 1}).Minimize(layers.Mean(price))
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	exe := executor.New()
	defer exe.Close()
	for _, value := range []float32{1, float32(math.Inf(1)), 1} {
		batch, _ := tensor.FromSlice([]float32{value}, 1, 1)
		fetched, err := exe.Run(context.Background(), p, executor.Feed{"x": batch}, "w", "loss_scaling_0")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("w", executor.Scalar(fetched[0]), "scale", fetched[1].Float32s()[0])
	}
	// Output:
	// w 0.5 scale 8
	// w 0.5 scale 6.4
	// w 0 scale 6.4
}
