package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleRelu() {
	s := newSketch()
	s.print(layers.Relu(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [0 0 2]
}

func ExampleSigmoid() {
	s := newSketch()
	s.print(layers.Sigmoid(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [0.119 0.5 0.881]
}

func ExampleTanh() {
	s := newSketch()
	s.print(layers.Tanh(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [-0.964 0 0.964]
}

func ExampleSoftsign() {
	s := newSketch()
	s.print(layers.Softsign(s.numbers("x", 3, -3, 0, 1)))
	// Output: [1 3] [-0.75 0 0.5]
}

func ExampleAbs() {
	s := newSketch()
	s.print(layers.Abs(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [2 0 2]
}

func ExampleSign() {
	s := newSketch()
	s.print(layers.Sign(s.numbers("x", 3, -2, 0, 2)))
	// Output: [1 3] [-1 0 1]
}

func ExampleExp() {
	s := newSketch()
	s.print(layers.Exp(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [1 2.72]
}

func ExampleLog() {
	s := newSketch()
	s.print(layers.Log(s.numbers("x", 2, 1, 10)))
	// Output: [1 2] [0 2.3]
}

func ExampleSqrt() {
	s := newSketch()
	s.print(layers.Sqrt(s.numbers("x", 2, 2, 9)))
	// Output: [1 2] [1.41 3]
}

func ExampleSquare() {
	s := newSketch()
	s.print(layers.Square(s.numbers("x", 2, -3, 4)))
	// Output: [1 2] [9 16]
}

func ExampleCos() {
	s := newSketch()
	s.print(layers.Cos(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [1 0.54]
}

func ExampleCeil() {
	s := newSketch()
	s.print(layers.Ceil(s.numbers("x", 2, 1.2, -1.2)))
	// Output: [1 2] [2 -1]
}

func ExampleFloor() {
	s := newSketch()
	s.print(layers.Floor(s.numbers("x", 2, 1.2, -1.2)))
	// Output: [1 2] [1 -2]
}

func ExampleScale() {
	s := newSketch()
	s.print(layers.Scale(s.numbers("x", 2, 1, 2), 10, 0.5))
	// Output: [1 2] [10.5 20.5]
}

func ExampleClip() {
	s := newSketch()
	s.print(layers.Clip(s.numbers("x", 3, -2, 0.5, 2), -1, 1))
	// Output: [1 3] [-1 0.5 1]
}

func ExampleClipByNorm() {
	s := newSketch()
	s.print(layers.ClipByNorm(s.numbers("x", 2, 3, 4), 1))
	// Output: [1 2] [0.6 0.8]
}

func ExampleSquaredNorm() {
	s := newSketch()
	s.print(layers.SquaredNorm(s.numbers("x", 2, 3, 4)))
	// Output: [1] [25]
}

func ExampleCast() {
	s := newSketch()
	s.print(layers.Cast(s.numbers("x", 3, -1.5, 0, 2.5), tensor.Int64))
	// Output: [1 3] [-1 0 2]
}

func ExampleZerosLike() {
	s := newSketch()
	s.print(layers.ZerosLike(s.numbers("x", 2, 3, 4)))
	// Output: [1 2] [0 0]
}

func ExampleAssign() {
	s := newSketch()
	s.print(layers.Assign(s.numbers("x", 2, 3, 4)))
	// Output: [1 2] [3 4]
}

// A state lives from step to step; this one keeps the largest mean so far.
func ExampleAssignTo() {
	s := newSketch()
	largest := s.State("largest", tensor.Float32, []int64{1}, layers.Constant(0))
	layers.AssignTo(largest, layers.Max(largest, layers.Mean(s.numbers("x", 2, 3, 4))))
	s.print(largest)
	// Output: [1] [3.5]
}

func ExampleIncrement() {
	s := newSketch()
	steps := s.State("steps", tensor.Float32, []int64{1}, layers.Constant(0))
	s.print(layers.Increment(steps, 1))
	// Output: [1] [1]
}

func ExampleFillConstant() {
	s := newSketch()
	s.print(layers.FillConstant(s.Model, 7, []int64{2, 3}, layers.DType(tensor.Int64)))
	// Output: [2 3] [7 7 7 7 7 7]
}

// The last axis of y matches that of x; the batch axis repeats it.
func ExampleAdd() {
	s := newSketch()
	x := s.numbers("x", 3, 1, 2, 3, 4, 5, 6)
	y := layers.FillConstant(s.Model, 10, []int64{3})
	s.print(layers.Add(x, y))
	// Output: [2 3] [11 12 13 14 15 16]
}

func ExampleSub() {
	s := newSketch()
	s.print(layers.Sub(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 1, 9), layers.Act("relu")))
	// Output: [1 2] [4 0]
}

func ExampleMul() {
	s := newSketch()
	s.print(layers.Mul(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 2, -1)))
	// Output: [1 2] [10 -7]
}

func ExampleDiv() {
	s := newSketch()
	s.print(layers.Div(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 2, -1)))
	// Output: [1 2] [2.5 -7]
}

func ExampleMax() {
	s := newSketch()
	s.print(layers.Max(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 2, 9)))
	// Output: [1 2] [5 9]
}

func ExampleHeaviside() {
	s := newSketch()
	s.print(layers.Heaviside(s.numbers("x", 3, -5, 0, 7), s.numbers("y", 3, 0.5, 0.5, 0.5)))
	// Output: [1 3] [0 0.5 1]
}

func ExampleMin() {
	s := newSketch()
	s.print(layers.Min(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 2, 9)))
	// Output: [1 2] [2 7]
}

func ExamplePow() {
	s := newSketch()
	s.print(layers.Pow(s.numbers("x", 2, 2, 9), s.numbers("y", 2, 3, 0.5)))
	// Output: [1 2] [8 3]
}

func ExampleSums() {
	s := newSketch()
	a, b, c := s.numbers("a", 2, 1, 2), s.numbers("b", 2, 10, 20), s.numbers("c", 2, 100, 200)
	s.print(layers.Sums([]layers.Variable{a, b, c}))
	// Output: [1 2] [111 222]
}
