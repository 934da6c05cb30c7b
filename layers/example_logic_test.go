package layers_test

import "github.com/edl-go/edl/layers"

// operands declares two variables with three numbers each.
func (s *sketch) operands() (x, y layers.Variable) {
	return s.numbers("x", 3, 1, 2, 3), s.numbers("y", 3, 3, 2, 1)
}

func ExampleLessThan() {
	s := newSketch()
	s.print(layers.LessThan(s.operands()))
	// Output: [1 3] [true false false]
}

func ExampleLessEqual() {
	s := newSketch()
	s.print(layers.LessEqual(s.operands()))
	// Output: [1 3] [true true false]
}

// A constant of one element meets every element of x.
func ExampleGreaterThan() {
	s := newSketch()
	x, _ := s.operands()
	s.print(layers.GreaterThan(x, layers.FillConstant(s.Model, 2, []int64{1})))
	// Output: [1 3] [false false true]
}

func ExampleGreaterEqual() {
	s := newSketch()
	s.print(layers.GreaterEqual(s.operands()))
	// Output: [1 3] [false true true]
}

func ExampleEqual() {
	s := newSketch()
	s.print(layers.Equal(s.operands()))
	// Output: [1 3] [false true false]
}

func ExampleNotEqual() {
	s := newSketch()
	s.print(layers.NotEqual(s.operands()))
	// Output: [1 3] [true false true]
}

func ExampleLogicalAnd() {
	s := newSketch()
	x, y := s.operands()
	s.print(layers.LogicalAnd(layers.LessEqual(x, y), layers.GreaterEqual(x, y)))
	// Output: [1 3] [false true false]
}

func ExampleLogicalOr() {
	s := newSketch()
	x, y := s.operands()
	s.print(layers.LogicalOr(layers.LessThan(x, y), layers.GreaterThan(x, y)))
	// Output: [1 3] [true false true]
}

func ExampleLogicalXor() {
	s := newSketch()
	x, y := s.operands()
	s.print(layers.LogicalXor(layers.LessEqual(x, y), layers.GreaterEqual(x, y)))
	// Output: [1 3] [true false true]
}

func ExampleLogicalNot() {
	s := newSketch()
	s.print(layers.LogicalNot(layers.LessThan(s.operands())))
	// Output: [1 3] [false true true]
}

func ExampleMod() {
	s := newSketch()
	s.print(layers.Mod(s.numbers("x", 2, 7, -7), layers.FillConstant(s.Model, 3, []int64{1})))
	// Output: [1 2] [1 2]
}

func ExampleFloorDiv() {
	s := newSketch()
	s.print(layers.FloorDiv(s.numbers("x", 2, 7, -7), layers.FillConstant(s.Model, 2, []int64{1})))
	// Output: [1 2] [3 -3]
}

// Each record has a matrix of one row, and a matrix of one column.
func ExampleBMM() {
	s := newSketch()
	x, y := s.numbers("x", 2, 1, 2, 3, 4), s.numbers("y", 2, 1, 1, 2, -1)
	s.print(layers.BMM(layers.Reshape(x, []int64{-1, 1, 2}), layers.Reshape(y, []int64{-1, 2, 1})))
	// Output: [2 1 1] [3 2]
}

func ExampleDot() {
	s := newSketch()
	s.print(layers.Dot(s.operands()))
	// Output: [1 1] [10]
}

func ExampleEqualAll() {
	s := newSketch()
	x := s.numbers("x", 2, 1, 2)
	s.print(layers.EqualAll(x, layers.Scale(x, 1, 0)))
	// Output: [1] [true]
}
