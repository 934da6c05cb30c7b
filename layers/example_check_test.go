package layers_test

import (
	"math"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleIsFinite() {
	s := newSketch()
	s.print(layers.IsFinite(s.numbers("x", 2, 1, 2)), layers.IsFinite(s.numbers("y", 2, 1, float32(math.NaN()))))
	// Output:
	// [1] [true]
	// [1] [false]
}

func ExampleHasInf() {
	s := newSketch()
	s.print(layers.HasInf(s.numbers("x", 2, 1, float32(math.Inf(-1)))))
	// Output: [1] [true]
}

func ExampleHasNaN() {
	s := newSketch()
	s.print(layers.HasNaN(s.numbers("x", 2, 1, float32(math.Inf(-1)))))
	// Output: [1] [false]
}

func ExampleAllClose() {
	s := newSketch()
	s.print(layers.AllClose(s.numbers("x", 2, 1, 2), s.numbers("y", 2, 1, 2.1), 0.1, 0))
	// Output: [1] [true]
}

// bits declares two variables with two integers each.
func (s *sketch) bits() (x, y layers.Variable) { return s.classes("x", 12, -1), s.classes("y", 10, 6) }

func ExampleBitwiseAnd() {
	s := newSketch()
	s.print(layers.BitwiseAnd(s.bits()))
	// Output: [2 1] [8 6]
}

func ExampleBitwiseOr() {
	s := newSketch()
	s.print(layers.BitwiseOr(s.bits()))
	// Output: [2 1] [14 -1]
}

func ExampleBitwiseXor() {
	s := newSketch()
	s.print(layers.BitwiseXor(s.bits()))
	// Output: [2 1] [6 -7]
}

func ExampleBitwiseNot() {
	s := newSketch()
	x, _ := s.bits()
	s.print(layers.BitwiseNot(x))
	// Output: [2 1] [-13 0]
}

// The classes of two records, 0 and 2, share a tenth of what they are sure of.
func ExampleLabelSmooth() {
	s := newSketch()
	s.print(layers.LabelSmooth(layers.OneHot(s.classes("label", 0, 2), 4), 0.1))
	// Output: [2 4] [0.925 0.025 0.025 0.025 0.025 0.025 0.925 0.025]
}

func ExampleMV() {
	s := newSketch()
	v, _ := tensor.FromSlice([]float32{10, 1}, 2)
	s.print(layers.MV(s.numbers("x", 2, 1, 2, 3, 4), layers.AssignValue(s.Model, v)))
	// Output: [2] [12 34]
}

func ExampleAssignValue() {
	s := newSketch()
	table, _ := tensor.FromSlice([]int64{3, 1, 4, 1}, 2, 2)
	s.print(layers.AssignValue(s.Model, table))
	// Output: [2 2] [3 1 4 1]
}
