package layers_test

import "github.com/edl-go/edl/layers"

func ExampleContinuousValueModel() {
	s := newSketch()
	x, counts := s.numbers("x", 4, 3, 1, 0.5, -0.5, 0, 0, 0.25, 2), s.numbers("counts", 2, 1, 0, 1, 1)
	s.print(layers.ContinuousValueModel(x, counts, true))
	s.print(layers.ContinuousValueModel(x, counts, false))
	// Output:
	// [2 4] [1.39 -0.693 0.5 -0.5 0 0 0.25 2]
	// [2 2] [0.5 -0.5 0.25 2]
}

func ExampleDataNorm() {
	s := newSketch()
	s.print(layers.DataNorm(s.numbers("x", 2, 1, -2, 3, 4), layers.Act("relu")))
	// Output: [2 2] [1 0 3 4]
}
