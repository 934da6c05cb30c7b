package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
)

// Axis -1 is the last one.
func ExampleConcat() {
	s := newSketch()
	s.print(layers.Concat([]layers.Variable{s.numbers("x", 2, 1, 2), s.numbers("y", 1, 3)}, -1))
	// Output: [1 3] [1 2 3]
}

func ExampleSplitSections() {
	s := newSketch()
	s.print(layers.SplitSections(s.numbers("x", 3, 1, 2, 3), []int64{2, 1}, 1)...)
	// Output:
	// [1 2] [1 2]
	// [1 1] [3]
}

// Each record of 6 numbers becomes a matrix; 0 keeps the batch axis.
func ExampleReshape() {
	s := newSketch()
	s.print(layers.Reshape(s.numbers("x", 6, 1, 2, 3, 4, 5, 6), []int64{0, 2, -1}))
	// Output: [1 2 3] [1 2 3 4 5 6]
}

func ExampleTranspose() {
	s := newSketch()
	s.print(layers.Transpose(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), []int{1, 0}))
	// Output: [3 2] [1 4 2 5 3 6]
}

func ExampleMatMul() {
	s := newSketch()
	x := s.numbers("x", 2, 1, 2, 3, 4)
	s.print(layers.MatMul(x, x, layers.TransposeY()))
	// Output: [2 2] [5 11 11 25]
}

func ExampleMean() {
	s := newSketch()
	s.print(layers.Mean(s.numbers("x", 2, 1, 2, 3, 4)))
	// Output: [1] [2.5]
}

func ExampleReduceMean() {
	s := newSketch()
	s.print(layers.ReduceMean(s.numbers("x", 2, 1, 2, 3, 4), layers.Axes(1)))
	// Output: [2] [1.5 3.5]
}

func ExampleReduceMax() {
	s := newSketch()
	s.print(layers.ReduceMax(s.numbers("x", 2, 1, 2, 3, 4), layers.Axes(0), layers.KeepDims()))
	// Output: [1 2] [3 4]
}

func ExampleTopK() {
	s := newSketch()
	values, indices := layers.TopK(s.numbers("x", 4, 1, 9, 3, 7), 2)
	s.print(values, indices)
	// Output:
	// [1 2] [9 7]
	// [1 2] [1 3]
}

func ExampleSplit() {
	m := layers.NewModel()
	for _, part := range layers.Split(layers.Data(m, "x", layers.Dims(6)), 3, -1) {
		fmt.Println(part)
	}
	// Output:
	// split_0.tmp_0 float32[-1 2]
	// split_0.tmp_1 float32[-1 2]
	// split_0.tmp_2 float32[-1 2]
}

func ExampleReduceSum() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(4, 6))
	fmt.Println(layers.ReduceSum(x, layers.Axes(-1)))
	fmt.Println(layers.ReduceMax(x, layers.Axes(1), layers.KeepDims()))
	// Output:
	// reduce_sum_0.tmp_0 float32[-1 4]
	// reduce_max_0.tmp_0 float32[-1 1 6]
}
