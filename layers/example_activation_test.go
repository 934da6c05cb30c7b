package layers_test

import "github.com/edl-go/edl/layers"

func ExampleRelu6() {
	s := newSketch()
	s.print(layers.Relu6(s.numbers("x", 3, -2, 3, 8)))
	// Output: [1 3] [0 3 6]
}

func ExampleLeakyRelu() {
	s := newSketch()
	s.print(layers.LeakyRelu(s.numbers("x", 2, -2, 3), 0.1))
	// Output: [1 2] [-0.2 3]
}

func ExamplePrelu() {
	s := newSketch()
	s.print(layers.Prelu(s.numbers("x", 2, -2, 3), "all"))
	// Output: [1 2] [-0.5 3]
}

func ExampleElu() {
	s := newSketch()
	s.print(layers.Elu(s.numbers("x", 2, -2, 3), 1))
	// Output: [1 2] [-0.865 3]
}

func ExampleSelu() {
	s := newSketch()
	s.print(layers.Selu(s.numbers("x", 2, -2, 3)))
	// Output: [1 2] [-1.52 3.15]
}

func ExampleGelu() {
	s := newSketch()
	s.print(layers.Gelu(s.numbers("x", 3, -1, 0, 2)))
	// Output: [1 3] [-0.159 0 1.95]
}

func ExampleGeluTanh() {
	s := newSketch()
	s.print(layers.GeluTanh(s.numbers("x", 3, -1, 0, 2)))
	// Output: [1 3] [-0.159 0 1.95]
}

func ExampleSwish() {
	s := newSketch()
	s.print(layers.Swish(s.numbers("x", 3, -1, 0, 2), 1))
	// Output: [1 3] [-0.269 0 1.76]
}

func ExampleMish() {
	s := newSketch()
	s.print(layers.Mish(s.numbers("x", 3, -1, 0, 2)))
	// Output: [1 3] [-0.303 0 1.94]
}

func ExampleHardSwish() {
	s := newSketch()
	s.print(layers.HardSwish(s.numbers("x", 4, -4, -1, 1, 4)))
	// Output: [1 4] [-0 -0.333 0.667 4]
}

func ExampleHardSigmoid() {
	s := newSketch()
	s.print(layers.HardSigmoid(s.numbers("x", 3, -4, 1, 4), 0.2, 0.5))
	// Output: [1 3] [0 0.7 1]
}

func ExampleHardShrink() {
	s := newSketch()
	s.print(layers.HardShrink(s.numbers("x", 3, -2, 0.25, 2), 0.5))
	// Output: [1 3] [-2 0 2]
}

func ExampleSoftShrink() {
	s := newSketch()
	s.print(layers.SoftShrink(s.numbers("x", 3, -2, 0.25, 2), 0.5))
	// Output: [1 3] [-1.5 0 1.5]
}

func ExampleThresholdedRelu() {
	s := newSketch()
	s.print(layers.ThresholdedRelu(s.numbers("x", 3, -2, 0.5, 2), 1))
	// Output: [1 3] [0 0 2]
}

func ExampleBRelu() {
	s := newSketch()
	s.print(layers.BRelu(s.numbers("x", 3, -2, 0.5, 2), -1, 1))
	// Output: [1 3] [-1 0.5 1]
}

func ExampleSoftplus() {
	s := newSketch()
	s.print(layers.Softplus(s.numbers("x", 3, -2, 0, 50)))
	// Output: [1 3] [0.127 0.693 50]
}

func ExampleSoftRelu() {
	s := newSketch()
	s.print(layers.SoftRelu(s.numbers("x", 3, -2, 0, 50), 40))
	// Output: [1 3] [0.127 0.693 40]
}

func ExampleLogSigmoid() {
	s := newSketch()
	s.print(layers.LogSigmoid(s.numbers("x", 3, -50, 0, 2)))
	// Output: [1 3] [-50 -0.693 -0.127]
}

func ExampleStanh() {
	s := newSketch()
	s.print(layers.Stanh(s.numbers("x", 3, -2, 0, 2), 0.67, 1.7159))
	// Output: [1 3] [-1.5 0 1.5]
}

func ExampleTanhShrink() {
	s := newSketch()
	s.print(layers.TanhShrink(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [-1.04 0 1.04]
}

func ExamplePower() {
	s := newSketch()
	s.print(layers.Power(s.numbers("x", 3, -2, 0, 2), 3))
	// Output: [1 3] [-8 0 8]
}

func ExampleMaxout() {
	s := newSketch()
	s.print(layers.Maxout(s.numbers("x", 4, 1, 5, 2, 3), 2))
	// Output: [1 2] [5 3]
}

func ExampleLogSoftmax() {
	s := newSketch()
	s.print(layers.LogSoftmax(s.numbers("x", 2, 1, 1)))
	// Output: [1 2] [-0.693 -0.693]
}
