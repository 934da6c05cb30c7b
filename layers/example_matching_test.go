package layers_test

import "github.com/edl-go/edl/layers"

// Beam 0 of the second step goes on from beam 1 of the first, and beam 1 from beam 0.
func ExampleGatherTree() {
	s := newSketch()
	ids, parents := s.classes("ids", 1, 2, 3, 4), s.classes("parents", 0, 0, 1, 0)
	s.print(layers.GatherTree(layers.Reshape(ids, []int64{2, 1, 2}), layers.Reshape(parents, []int64{2, 1, 2})))
	// Output: [2 1 2] [2 1 3 4]
}

func ExampleSimilarityFocus() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 8, 0.8, 0.1, 0.4, 0.5, 0, 0, 0, 0), []int64{0, 2, 2, 2})
	s.print(layers.SimilarityFocus(x, 1, []int{0}))
	// Output: [1 2 2 2] [1 0 0 1 1 0 0 1]
}

func ExamplePartialConcat() {
	s := newSketch()
	s.print(layers.PartialConcat([]layers.Variable{s.numbers("x", 3, 1, 2, 3), s.numbers("y", 3, 4, 5, 6)}, 1, 1))
	// Output: [1 2] [2 5]
}

func ExamplePartialSum() {
	s := newSketch()
	s.print(layers.PartialSum([]layers.Variable{s.numbers("x", 3, 1, 2, 3), s.numbers("y", 3, 4, 5, 6)}, 0, 2))
	// Output: [1 2] [5 7]
}

func ExampleMultinomial() {
	s := newSketch()
	s.print(layers.Multinomial(s.numbers("x", 2, 0, 1), 1, false))
	// Output: [1 1] [1]
}

func ExampleShuffleBatch() {
	s := newSketch()
	s.print(layers.ReduceSum(layers.ShuffleBatch(s.numbers("x", 1, 1, 2, 3))))
	// Output: [1] [6]
}

func ExampleRandomCrop() {
	s := newSketch()
	s.print(layers.RandomCrop(s.numbers("x", 2, 7, 7, 8, 8), []int64{1}))
	s.print(layers.RandomCrop(s.numbers("y", 3, 1, 2, 3, 4, 5, 6), []int64{1}, layers.IsTest()))
	// Output:
	// [2 1] [7 8]
	// [2 1] [2 5]
}

func ExampleRandomFlip() {
	s := newSketch()
	rows := s.numbers("x", 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3)
	s.print(layers.RandomFlip(rows, []int{1}, 0.5))
	s.print(layers.RandomFlip(rows, []int{1}, 0.5, layers.IsTest()))
	// Output:
	// [6 3] [1 2 3 1 2 3 3 2 1 1 2 3 3 2 1 3 2 1]
	// [6 3] [1 2 3 1 2 3 1 2 3 1 2 3 1 2 3 1 2 3]
}
