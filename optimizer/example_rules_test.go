package optimizer_test

import "github.com/edl-go/edl/optimizer"

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
