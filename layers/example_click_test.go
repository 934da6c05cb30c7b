package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

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

// The first and the last row have the tag 7.
func ExampleFilterByInsTag() {
	s := newSketch()
	x, tags := s.numbers("x", 2, 1, 2, 3, 4, 5, 6), s.labels("tags", []int64{2, 1, 1}, 1, 7, 2, 7)
	kept, weight := layers.FilterByInsTag(x, tags, layers.FillConstant(s.Model, 7, []int64{1}, layers.DType(tensor.Int64)))
	s.print(kept, weight)
	// Output:
	// [2 2] [1 2 5 6]
	// [2 1] [1 1]
}
