package layers_test

import "github.com/edl-go/edl/layers"

// The last two columns.
func ExampleSlice() {
	s := newSketch()
	s.print(layers.Slice(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), []int{1}, []int64{-2}, []int64{3}))
	// Output: [2 2] [2 3 5 6]
}

// Every row backwards, in steps of two.
func ExampleStridedSlice() {
	s := newSketch()
	s.print(layers.StridedSlice(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), []int{1}, []int64{2}, []int64{-1}, []int64{-2}))
	// Output: [2 2] [3 1 6 4]
}

func ExampleShape() {
	s := newSketch()
	s.print(layers.Cast(layers.Shape(s.numbers("x", 3, 1, 2, 3, 4, 5, 6)), 3))
	// Output: [2] [2 3]
}

func ExampleSize() {
	s := newSketch()
	s.print(layers.Size(s.numbers("x", 3, 1, 2, 3, 4, 5, 6)))
	// Output: [1] [6]
}
