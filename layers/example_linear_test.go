package layers_test

import (
	"github.com/edl-go/edl/layers"
)

func ExampleCelu() {
	s := newSketch()
	s.print(layers.Celu(s.numbers("x", 2, -2, 3), 1))
	// Output: [1 2] [-0.865 3]
}

func ExampleKron() {
	s := newSketch()
	s.print(layers.Kron(s.numbers("x", 2, 1, 2), s.numbers("y", 2, 10, 100)))
	// Output: [1 4] [10 100 20 200]
}

func ExampleAddMM() {
	s := newSketch()
	x := s.numbers("x", 2, 1, 2, 3, 4)
	s.print(layers.AddMM(x, x, layers.FillConstant(s.Model, 1, []int64{2, 2}), 2, 1))
	// Output: [2 2] [7 8 17 18]
}

func ExampleInverse() {
	s := newSketch()
	s.print(layers.Inverse(layers.Reshape(s.numbers("x", 4, 1, 2, 3, 5), []int64{-1, 2, 2})))
	// Output: [1 2 2] [-5 2 3 -1]
}

func ExampleSolve() {
	s := newSketch()
	s.print(layers.Solve(layers.Reshape(s.numbers("x", 4, 1, 2, 3, 5), []int64{-1, 2, 2}), s.numbers("y", 2, 8, 21)))
	// Output: [1 2] [2 3]
}

func ExampleAtan2() {
	s := newSketch()
	s.print(layers.Atan2(s.numbers("y", 2, 1, -1), s.numbers("x", 2, 1, -1)))
	// Output: [1 2] [0.785 -2.36]
}

func ExampleHistogram() {
	s := newSketch()
	s.print(layers.Histogram(s.numbers("x", 3, 1, 2, 1), 4, 0, 3))
	// Output: [4] [0 2 1 0]
}

func ExampleRandInt() {
	s := newSketch()
	s.print(layers.RandInt(s.Model, []int64{2}, 7, 8))
	// Output: [2] [7 7]
}

func ExampleRandPerm() {
	s := newSketch()
	s.print(layers.RandPerm(s.Model, 1))
	// Output: [1] [0]
}

func ExampleGumbelSoftmax() {
	s := newSketch()
	s.print(layers.GumbelSoftmax(s.numbers("x", 3, -100, 0, -100), 0.5, true))
	// Output: [1 3] [0 1 0]
}

func ExampleBernoulli() {
	s := newSketch()
	s.print(layers.Bernoulli(s.numbers("p", 2, 0, 1)))
	// Output: [1 2] [0 1]
}

func ExampleWhereIndex() {
	s := newSketch()
	s.print(layers.WhereIndex(s.numbers("x", 2, 0, 1, 3, 0)))
	// Output: [2 2] [0 1 1 0]
}

func ExampleMaskedSelect() {
	s := newSketch()
	x := s.numbers("x", 3, 1, 5, 2)
	s.print(layers.MaskedSelect(x, layers.LessThan(x, layers.FillLike(x, 3))))
	// Output: [2] [1 2]
}

func ExampleSegmentPool() {
	s := newSketch()
	ids := layers.Reshape(s.classes("ids", 0, 0, 2), []int64{-1})
	s.print(layers.SegmentPool(layers.Reshape(s.numbers("x", 3, 1, 5, 2), []int64{-1, 1}), ids, "MEAN"))
	// Output: [3 1] [3 0 2]
}

func ExampleKeepBoxes() {
	s := newSketch()
	boxes := layers.Reshape(s.numbers("boxes", 12, 0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8), []int64{-1, 4})
	s.print(layers.KeepBoxes(boxes, 0.5))
	// Output: [2] [0 2]
}

func ExampleUnique() {
	s := newSketch()
	s.print(layers.Unique(layers.Reshape(s.classes("x", 2, 3, 3, 1), []int64{-1})))
	// Output:
	// [3] [2 3 1]
	// [4] [0 1 1 2]
}

func ExampleUniqueWithCounts() {
	s := newSketch()
	s.print(layers.UniqueWithCounts(layers.Reshape(s.classes("x", 2, 3, 3, 1), []int64{-1})))
	// Output:
	// [3] [2 3 1]
	// [4] [0 1 1 2]
	// [3] [1 2 1]
}
