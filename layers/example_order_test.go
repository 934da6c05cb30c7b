package layers_test

import (
	"math"

	"github.com/edl-go/edl/layers"
)

func ExampleArgMax() {
	s := newSketch()
	s.print(layers.ArgMax(s.numbers("x", 3, 1, 3, 2, 6, 4, 5), -1))
	// Output: [2] [1 0]
}

func ExampleArgMin() {
	s := newSketch()
	s.print(layers.ArgMin(s.numbers("x", 3, 1, 3, 2, 6, 4, 5), 1))
	// Output: [2] [0 1]
}

func ExampleArgSort() {
	s := newSketch()
	sorted, places := layers.ArgSort(s.numbers("x", 3, 3, 1, 2))
	s.print(sorted, places)
	// Output:
	// [1 3] [1 2 3]
	// [1 3] [1 2 0]
}

func ExampleCumSum() {
	s := newSketch()
	s.print(layers.CumSum(s.numbers("x", 3, 1, 2, 3)))
	// Output: [1 3] [1 3 6]
}

func ExampleLogCumSumExp() {
	s := newSketch()
	s.print(layers.LogCumSumExp(s.numbers("x", 2, 0, 0)))
	// Output: [1 2] [0 0.693]
}

// Twenty numbers in two shards: the second has 10 to 19.
func ExampleShardIndex() {
	s := newSketch()
	s.print(layers.ShardIndex(s.classes("x", 1, 12, 19), 20, 2, 1))
	// Output: [3 1] [-1 2 9]
}

func ExampleReduceMin() {
	s := newSketch()
	s.print(layers.ReduceMin(s.numbers("x", 2, 1, 2, 4, 3), layers.Axes(1)))
	// Output: [2] [1 3]
}

func ExampleReduceProd() {
	s := newSketch()
	s.print(layers.ReduceProd(s.numbers("x", 2, 1, 2, 4, 3), layers.Axes(1)))
	// Output: [2] [2 12]
}

func ExampleReduceAll() {
	s := newSketch()
	x := s.numbers("x", 2, 1, 2, 4, 3)
	s.print(layers.ReduceAll(layers.GreaterThan(x, layers.FillConstant(s.Model, 1, []int64{1})), layers.Axes(1)))
	// Output: [2] [false true]
}

func ExampleReduceAny() {
	s := newSketch()
	x := s.numbers("x", 2, 1, 2, 4, 3)
	s.print(layers.ReduceAny(layers.GreaterThan(x, layers.FillConstant(s.Model, 3, []int64{1})), layers.Axes(1)))
	// Output: [2] [false true]
}

func ExampleLogSumExp() {
	s := newSketch()
	s.print(layers.LogSumExp(s.numbers("x", 2, 0, 0), layers.Axes(1)))
	// Output: [1] [0.693]
}

func ExampleFrobeniusNorm() {
	s := newSketch()
	s.print(layers.FrobeniusNorm(s.numbers("x", 2, 1, 2, 4, 2)))
	// Output: [1] [5]
}

func ExampleL1Norm() {
	s := newSketch()
	s.print(layers.L1Norm(s.numbers("x", 2, 1, -2)))
	// Output: [1] [3]
}

func ExamplePNorm() {
	s := newSketch()
	x := s.numbers("x", 2, 3, -4, 6, 8)
	s.print(layers.PNorm(x, 2), layers.PNorm(x, math.Inf(1)))
	// Output:
	// [2] [5 10]
	// [2] [4 8]
}

func ExampleL2Normalize() {
	s := newSketch()
	s.print(layers.L2Normalize(s.numbers("x", 2, 3, 4, 6, -8), 1))
	// Output: [2 2] [0.6 0.8 0.6 -0.8]
}

// An image of one row and three columns, and windows of two columns.
func ExampleFold() {
	s := newSketch()
	windows := layers.Reshape(s.numbers("x", 4, 1, 2, 2, 3), []int64{-1, 2, 2})
	s.print(layers.Fold(windows, 1, 3, 1, 2))
	// Output: [1 1 1 3] [1 4 3]
}

func ExampleUnfold() {
	s := newSketch()
	s.print(layers.Unfold(layers.Reshape(s.numbers("x", 3, 1, 2, 3), []int64{-1, 1, 1, 3}), 1, 2))
	// Output: [1 2 2] [1 2 2 3]
}

func ExampleCumMax() {
	s := newSketch()
	values, places := layers.CumMax(s.numbers("x", 4, 2, 1, 3, 3))
	s.print(values, places)
	// Output:
	// [1 4] [2 2 3 3]
	// [1 4] [0 0 2 3]
}

func ExampleCumMin() {
	s := newSketch()
	values, places := layers.CumMin(s.numbers("x", 4, 2, 1, 3, 3))
	s.print(values, places)
	// Output:
	// [1 4] [2 1 1 1]
	// [1 4] [0 1 1 1]
}

func ExampleNanMedian() {
	s := newSketch()
	s.print(layers.NanMedian(s.numbers("x", 4, 8, 1, 3, 5), []int{-1}))
	// Output: [1 1] [4]
}

func ExampleRenorm() {
	s := newSketch()
	s.print(layers.Renorm(s.numbers("x", 2, 3, 4, 0.3, 0.4), 2, 0, 1))
	// Output: [2 2] [0.6 0.8 0.3 0.4]
}
