package layers_test

import "github.com/edl-go/edl/layers"

// matrix is one matrix of two rows and columns.
func (s *sketch) matrix(name string, values ...float32) layers.Variable {
	return layers.Reshape(s.numbers(name, 4, values...), []int64{-1, 2, 2})
}

func ExampleSolveTriangular() {
	s := newSketch()
	s.print(layers.SolveTriangular(s.matrix("x", 2, 1, 0, 4), layers.Reshape(s.numbers("y", 2, 4, 8), []int64{-1, 2, 1}), true))
	// Output: [1 2 1] [1 2]
}

func ExampleCholeskySolve() {
	s := newSketch()
	s.print(layers.CholeskySolve(layers.Reshape(s.numbers("y", 2, 8, 12), []int64{-1, 2, 1}), s.matrix("factor", 2, 0, 1, 2)))
	// Output: [1 2 1] [1 2]
}

func ExampleQR() {
	s := newSketch()
	_, triangular := layers.QR(s.matrix("x", 3, 1, 4, 2))
	s.print(triangular)
	// Output: [1 2 2] [-5 -2.2 0 0.4]
}

func ExampleLeastSquares() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 6, 1, 0, 0, 2, 0, 0), []int64{-1, 3, 2})
	y := layers.Reshape(s.numbers("y", 3, 3, 4, 9), []int64{-1, 3, 1})
	s.print(layers.LeastSquares(x, y, 0))
	// Output: [1 2 1] [3 2]
}

func ExampleLU() {
	s := newSketch()
	factors, pivots := layers.LU(s.matrix("x", 1, 2, 4, 2))
	s.print(factors, pivots)
	// Output:
	// [1 2 2] [4 2 0.25 1.5]
	// [1 2] [2 2]
}

func ExampleLUUnpack() {
	s := newSketch()
	_, lower, upper := layers.LUUnpack(layers.LU(s.matrix("x", 1, 2, 4, 2)))
	s.print(lower, upper)
	// Output:
	// [1 2 2] [1 0 0.25 1]
	// [1 2 2] [4 2 0 1.5]
}

func ExampleSVD() {
	s := newSketch()
	_, values, _ := layers.SVD(s.matrix("x", 0, 2, -3, 0))
	s.print(values)
	// Output: [1 2] [3 2]
}

func ExampleMatrixRank() {
	s := newSketch()
	s.print(layers.MatrixRank(s.matrix("x", 1, 2, 2, 4)))
	// Output: [1] [1]
}

func ExampleLogDeterminant() {
	s := newSketch()
	s.print(layers.LogDeterminant(s.matrix("x", 1, 2, 3, 4)))
	// Output: [2 1] [-1 0.693]
}

func ExampleI0e() {
	s := newSketch()
	s.print(layers.I0e(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [1 0.466]
}

func ExampleI1() {
	s := newSketch()
	s.print(layers.I1(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [0 0.565]
}

func ExampleI1e() {
	s := newSketch()
	s.print(layers.I1e(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [0 0.208]
}

func ExampleIndexPut() {
	s := newSketch()
	x := s.numbers("x", 3, 7, 8, 9)
	s.print(layers.IndexPut(x, []layers.Variable{layers.GreaterThan(x, layers.FillLike(x, 7))}, layers.FillConstant(s.Model, 0, []int64{1}), false))
	// Output: [1 3] [7 0 0]
}
