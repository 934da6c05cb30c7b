package layers_test

import "github.com/edl-go/edl/layers"

// All weights are 1/2, and there are no biases: tanh(1/2), and tanh(tanh(1/2)/2 + 1/2).
func ExampleRNN() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 2, 1, 1), []int64{0, 2, 1})
	half, none := layers.ParamAttr{Initializer: layers.Constant(0.5)}, layers.ParamAttr{Initializer: layers.Constant(0)}
	s.print(layers.RNN(x, "RNN_TANH", 1, 1, false, layers.Param(half), layers.Bias(none)))
	// Output: [1 2 1] [0.462 0.624]
}

// One step of one sequence. All weights are 1/2: each gate gets 2/2 + 1/2 from x, and 1/2 + 1/2 from h.
func ExampleLSTM() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 1, 2), []int64{1, 1, 1})
	one := layers.FillConstant(s.Model, 1, []int64{1, 1, 1})
	out, _, c := layers.LSTM(x, one, one, false, layers.Param(layers.ParamAttr{Initializer: layers.Constant(0.5)}))
	s.print(out, c)
	// Output:
	// [1 1 1] [0.878]
	// [1 1 1] [1.84]
}
