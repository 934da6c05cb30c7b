package layers_test

import "github.com/edl-go/edl/layers"

func ExampleUniformRandomBatchSizeLike() {
	s := newSketch()
	z := layers.UniformRandomBatchSizeLike(s.numbers("x", 1, 1, 2), []int64{-1, 3}, 2, 5)
	s.print(layers.Floor(layers.Scale(z, 1.0/3, -2.0/3))) // all are between 2 and 5
	// Output: [2 3] [0 0 0 0 0 0]
}

func ExampleGaussianRandomBatchSizeLike() {
	s := newSketch()
	z := layers.GaussianRandomBatchSizeLike(s.numbers("x", 1, 1, 2), []int64{-1, 3}, 0, 1)
	s.print(layers.ReduceAny(layers.Equal(z, layers.FillLike(z, 0))))
	// Output: [1] [false]
}

func ExamplePoisson() {
	s := newSketch()
	s.print(layers.Poisson(s.numbers("rates", 2, 0, 0)))
	// Output: [1 2] [0 0]
}

func ExampleDirichlet() {
	s := newSketch()
	s.print(layers.ReduceSum(layers.Dirichlet(s.numbers("weights", 3, 1, 2, 3))))
	// Output: [1] [1]
}

func ExampleRandomRelu() {
	s := newSketch()
	s.print(layers.RandomRelu(s.numbers("x", 2, -2, 3), 0.5, 0.5))
	// Output: [1 2] [-1 3]
}
