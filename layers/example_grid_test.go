package layers_test

import "github.com/edl-go/edl/layers"

// The corner above on the left, and the middle.
func ExampleGridSampler() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 1, 2, 2})
	grid := layers.Reshape(s.numbers("grid", 4, -1, -1, 0, 0), []int64{0, 1, 2, 2})
	s.print(layers.GridSampler(image, grid))
	// Output: [1 1 1 2] [1 2.5]
}

// A map that mirrors the image.
func ExampleAffineGrid() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 1, 2, 2})
	theta := layers.Reshape(s.numbers("map", 6, -1, 0, 0, 0, 1, 0), []int64{0, 2, 3})
	s.print(layers.GridSampler(image, layers.AffineGrid(theta, 2, 2)))
	// Output: [1 1 2 2] [2 1 4 3]
}
