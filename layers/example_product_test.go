package layers_test

import "github.com/edl-go/edl/layers"

// With a matrix of ones it is the product of the sums: (1 + 2)·(3 + 4).
func ExampleBilinearTensorProduct() {
	s := newSketch()
	s.print(layers.BilinearTensorProduct(s.numbers("x", 2, 1, 2), s.numbers("y", 2, 3, 4), 1, allOnes))
	// Output: [1 1] [21]
}

func ExampleFSPMatrix() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 2, 1, 2), []int64{0, 1, 1, 2})
	y := layers.Reshape(s.numbers("y", 4, 3, 4, 5, 6), []int64{0, 2, 1, 2})
	s.print(layers.FSPMatrix(x, y))
	// Output: [1 1 2] [5.5 8.5]
}

func ExampleConvShift() {
	s := newSketch()
	s.print(layers.ConvShift(s.numbers("x", 4, 1, 2, 3, 4), s.numbers("y", 3, 1, 10, 100)))
	// Output: [1 4] [214 321 432 143]
}

func ExampleEinsum() {
	s := newSketch()
	s.print(layers.Einsum("ij,kj->ik", []layers.Variable{s.numbers("x", 2, 1, 2, 3, 4), s.numbers("y", 2, 1, 0)}))
	// Output: [2 1] [1 3]
}
