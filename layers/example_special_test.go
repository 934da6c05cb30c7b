package layers_test

import "github.com/edl-go/edl/layers"

func ExampleTrunc() {
	s := newSketch()
	s.print(layers.Trunc(s.numbers("x", 3, -1.5, 0.5, 2.75)))
	// Output: [1 3] [-1 0 2]
}

func ExampleLGamma() {
	s := newSketch()
	s.print(layers.LGamma(s.numbers("x", 2, 1, 5)))
	// Output: [1 2] [0 3.18]
}

func ExampleDigamma() {
	s := newSketch()
	s.print(layers.Digamma(s.numbers("x", 2, 1, 2)))
	// Output: [1 2] [-0.577 0.423]
}

func ExampleErfinv() {
	s := newSketch()
	s.print(layers.Erfinv(layers.Erf(s.numbers("x", 2, 0.5, -1))))
	// Output: [1 2] [0.5 -1]
}

func ExampleLogit() {
	s := newSketch()
	s.print(layers.Logit(layers.Sigmoid(s.numbers("x", 2, 0.5, -2)), 1e-6))
	// Output: [1 2] [0.5 -2]
}

func ExampleI0() {
	s := newSketch()
	s.print(layers.I0(s.numbers("x", 2, 0, 1)))
	// Output: [1 2] [1 1.27]
}

func ExampleFMax() {
	s := newSketch()
	zero := s.numbers("zero", 2, 0, 1)
	s.print(layers.FMax(layers.Div(zero, zero), s.numbers("y", 2, 2, 3)))
	// Output: [1 2] [2 3]
}

func ExampleFMin() {
	s := newSketch()
	zero := s.numbers("zero", 2, 0, 1)
	s.print(layers.FMin(layers.Div(zero, zero), s.numbers("y", 2, 2, 3)))
	// Output: [1 2] [2 1]
}

func ExampleLerp() {
	s := newSketch()
	s.print(layers.Lerp(s.numbers("x", 2, 0, 10), s.numbers("y", 2, 4, 20), layers.FillConstant(s.Model, 0.25, []int64{1})))
	// Output: [1 2] [1 12.5]
}

func ExampleDist() {
	s := newSketch()
	s.print(layers.Dist(s.numbers("x", 2, 1, 2), s.numbers("y", 2, 4, 6), 2))
	// Output: [1] [5]
}

func ExampleCross() {
	s := newSketch()
	s.print(layers.Cross(s.numbers("x", 3, 1, 0, 0), s.numbers("y", 3, 0, 1, 0), 1))
	// Output: [1 3] [0 0 1]
}

func ExampleTrace() {
	s := newSketch()
	s.print(layers.Trace(layers.Reshape(s.numbers("x", 4, 1, 2, 3, 4), []int64{-1, 2, 2}), 0, 1, 2))
	// Output: [1] [5]
}

func ExampleDiagonal() {
	s := newSketch()
	s.print(layers.Diagonal(layers.Reshape(s.numbers("x", 4, 1, 2, 3, 4), []int64{-1, 2, 2}), 1, 1, 2))
	// Output: [1 1] [2]
}

func ExampleDiagEmbed() {
	s := newSketch()
	s.print(layers.DiagEmbed(s.numbers("x", 2, 3, 4), 0, 1, 2))
	// Output: [1 2 2] [3 0 0 4]
}

func ExampleFillDiagonal() {
	s := newSketch()
	s.print(layers.FillDiagonal(s.numbers("x", 2, 1, 2, 3, 4), 9))
	// Output: [2 2] [9 2 3 9]
}

func ExampleTrilIndices() {
	s := newSketch()
	s.print(layers.TrilIndices(s.Model, 2, 2, 0))
	// Output: [2 3] [0 1 1 0 0 1]
}

func ExampleTriuIndices() {
	s := newSketch()
	s.print(layers.TriuIndices(s.Model, 2, 2, 0))
	// Output: [2 3] [0 0 1 0 1 1]
}

func ExampleCholesky() {
	s := newSketch()
	s.print(layers.Cholesky(layers.Reshape(s.numbers("x", 4, 4, 2, 2, 5), []int64{-1, 2, 2})))
	// Output: [1 2 2] [2 0 1 2]
}

func ExampleDeterminant() {
	s := newSketch()
	s.print(layers.Determinant(layers.Reshape(s.numbers("x", 4, 1, 2, 3, 4), []int64{-1, 2, 2})))
	// Output: [1] [-2]
}

func ExampleMatrixPower() {
	s := newSketch()
	s.print(layers.MatrixPower(layers.Reshape(s.numbers("x", 4, 1, 1, 0, 1), []int64{-1, 2, 2}), 5))
	// Output: [1 2 2] [1 5 0 1]
}

func ExampleKthValue() {
	s := newSketch()
	values, places := layers.KthValue(s.numbers("x", 3, 7, 5, 6), 2)
	s.print(values, places)
	// Output:
	// [1] [6]
	// [1] [2]
}

func ExampleMode() {
	s := newSketch()
	values, places := layers.Mode(s.numbers("x", 4, 7, 5, 7, 6))
	s.print(values, places)
	// Output:
	// [1] [7]
	// [1] [2]
}

func ExampleCumProd() {
	s := newSketch()
	s.print(layers.CumProd(s.numbers("x", 3, 1, 2, 3)))
	// Output: [1 3] [1 2 6]
}

func ExampleSearchSorted() {
	s := newSketch()
	s.print(layers.SearchSorted(s.numbers("rows", 3, 1, 3, 5), s.numbers("values", 2, 3, 4)))
	// Output: [1 2] [1 2]
}

func ExampleTakeAlongAxis() {
	s := newSketch()
	s.print(layers.TakeAlongAxis(s.numbers("x", 3, 7, 8, 9), s.classes("index", 2), 1))
	// Output: [1 1] [9]
}

func ExamplePutAlongAxis() {
	s := newSketch()
	s.print(layers.PutAlongAxis(s.numbers("x", 3, 7, 8, 9), s.classes("index", 2), s.numbers("value", 1, 5), 1, "add"))
	// Output: [1 3] [7 8 14]
}

func ExampleNLLLoss() {
	s := newSketch()
	s.print(layers.NLLLoss(layers.LogSoftmax(s.numbers("x", 2, 0, 0, 0, 0)), layers.Reshape(s.classes("label", 1, 0), []int64{-1})))
	// Output: [1] [0.693]
}
