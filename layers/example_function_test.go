package layers_test

import "github.com/edl-go/edl/layers"

func ExampleSin() {
	s := newSketch()
	s.print(layers.Sin(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.479 0 0.841]
}

func ExampleTan() {
	s := newSketch()
	s.print(layers.Tan(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.546 0 1.56]
}

func ExampleAsinh() {
	s := newSketch()
	s.print(layers.Asinh(s.numbers("x", 2, 0, 0.75)))
	// Output: [1 2] [0 0.693]
}

func ExampleAcosh() {
	s := newSketch()
	s.print(layers.Acosh(s.numbers("x", 2, 1, 1.25)))
	// Output: [1 2] [0 0.693]
}

func ExampleAtanh() {
	s := newSketch()
	s.print(layers.Atanh(s.numbers("x", 2, 0, 0.6)))
	// Output: [1 2] [0 0.693]
}

func ExampleAsin() {
	s := newSketch()
	s.print(layers.Asin(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.524 0 1.57]
}

func ExampleAcos() {
	s := newSketch()
	s.print(layers.Acos(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [2.09 1.57 0]
}

func ExampleAtan() {
	s := newSketch()
	s.print(layers.Atan(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.464 0 0.785]
}

func ExampleSinh() {
	s := newSketch()
	s.print(layers.Sinh(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.521 0 1.18]
}

func ExampleCosh() {
	s := newSketch()
	s.print(layers.Cosh(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [1.13 1 1.54]
}

func ExampleErf() {
	s := newSketch()
	s.print(layers.Erf(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.52 0 0.843]
}

func ExampleExpm1() {
	s := newSketch()
	s.print(layers.Expm1(s.numbers("x", 3, -0.5, 0, 1)))
	// Output: [1 3] [-0.393 0 1.72]
}

func ExampleLog1p() {
	s := newSketch()
	s.print(layers.Log1p(s.numbers("x", 2, 0, 3)))
	// Output: [1 2] [0 1.39]
}

func ExampleLog2() {
	s := newSketch()
	s.print(layers.Log2(s.numbers("x", 2, 8, 0.5)))
	// Output: [1 2] [3 -1]
}

func ExampleLog10() {
	s := newSketch()
	s.print(layers.Log10(s.numbers("x", 2, 100, 0.1)))
	// Output: [1 2] [2 -1]
}

func ExampleRsqrt() {
	s := newSketch()
	s.print(layers.Rsqrt(s.numbers("x", 2, 4, 0.25)))
	// Output: [1 2] [0.5 2]
}

func ExampleRound() {
	s := newSketch()
	s.print(layers.Round(s.numbers("x", 3, -1.6, 1.4, 2.5)))
	// Output: [1 3] [-2 1 3]
}

func ExampleReciprocal() {
	s := newSketch()
	s.print(layers.Reciprocal(s.numbers("x", 2, 4, -0.5)))
	// Output: [1 2] [0.25 -2]
}
