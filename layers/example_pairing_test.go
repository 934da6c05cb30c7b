package layers_test

import "github.com/edl-go/edl/layers"

// Two sequences of two numbers and of one, compared with sequences of three numbers and of one.
func (s *sketch) pairs() (x, y, products layers.Variable) {
	x, y = s.sequences("x", 1, []int64{2, 1}, 1, 2, 3), s.sequences("y", 1, []int64{3, 1}, 1, 10, 100, 5)
	return x, y, layers.MatchMatrixTensor(x, y, 1, all(1))
}

func ExampleMatchMatrixTensor() {
	s := newSketch()
	_, _, products := s.pairs()
	s.print(products)
	// Output: [7 1] [1 10 100 2 20 200 15]
}

// A window of three columns, of which all are added up.
func ExampleVarConv2D() {
	s := newSketch()
	x, y, products := s.pairs()
	s.print(layers.VarConv2D(products, x, y, 1, 1, 3, layers.WindowSize(1, 3), all(1)))
	// Output: [7 1] [11 111 110 22 222 220 15]
}

// For each row the largest product, and the mean of the two largest.
func ExampleSequenceTopKAvgPooling() {
	s := newSketch()
	x, y, products := s.pairs()
	s.print(layers.SequenceTopKAvgPooling(products, x, y, []int{1, 2}, 1))
	// Output: [3 2] [100 55 200 110 15 7.5]
}
