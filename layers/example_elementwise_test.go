package layers_test

import "github.com/edl-go/edl/layers"

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

func ExampleLessThan() {
	s := newSketch()
	s.print(layers.LessThan(s.numbers("x", 2, 5, 7), s.numbers("y", 2, 5, 9)))
	// Output: [1 2] [false true]
}

func ExampleSums() {
	s := newSketch()
	a, b, c := s.numbers("a", 2, 1, 2), s.numbers("b", 2, 10, 20), s.numbers("c", 2, 100, 200)
	s.print(layers.Sums([]layers.Variable{a, b, c}))
	// Output: [1 2] [111 222]
}
