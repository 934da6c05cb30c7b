package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// all makes every weight of a layer the same.
func all(weight float64) layers.Option {
	return layers.Param(layers.ParamAttr{Initializer: layers.Constant(weight)})
}

// A window of three rows, of which all are added up, on sequences of three rows and of one.
func ExampleSequenceConv() {
	s := newSketch()
	x := s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4)
	s.print(
		layers.SequenceConv(x, 1, 3, all(1), layers.NoBias()),
		layers.SequenceConv(x, 1, 3, all(1), layers.NoBias(), layers.PaddingStart(0)),
	)
	// Output:
	// [4 1] [3 6 5 4]
	// [4 1] [6 5 3 4]
}

func ExampleSequenceConvPool() {
	s := newSketch()
	x := s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4)
	s.print(layers.SequenceConvPool(x, 1, 3, "max", all(1), layers.Act("relu")))
	// Output: [2 1] [6 4]
}

// e**1.1 is about 3.
func ExampleSequenceSoftmax() {
	s := newSketch()
	s.print(layers.SequenceSoftmax(s.sequences("x", 1, []int64{2, 1}, 0, 1.0986123, 5)))
	// Output: [3 1] [0.25 0.75 1]
}

// Without weights, update gates that are open at 100 let each candidate in, and closed ones keep what was before.
func ExampleDynamicGRU() {
	s := newSketch()
	x := s.sequences("x", 3, []int64{3, 1},
		100, 0, 1,
		-100, 0, 2,
		100, 0, 3,
		100, 0, 4)
	s.print(layers.DynamicGRU(x, 1, all(0), layers.GRUActs("sigmoid", "identity")))
	// Output: [4 1] [1 1 3 4]
}

func ExampleGRUUnit() {
	s := newSketch()
	hidden, reset, _ := layers.GRUUnit(s.numbers("x", 3, 100, 100, 7), s.numbers("before", 1, 2), 1, all(1), layers.GRUActs("sigmoid", "identity"))
	s.print(hidden, reset) // the candidate is 7 and what the reset gate keeps of before
	// Output:
	// [1 1] [9]
	// [1 1] [2]
}

// Without weights all gates are half open and the candidate is 0, so half of the cell stays.
func ExampleLSTMUnit() {
	s := newSketch()
	hidden, cell := layers.LSTMUnit(s.numbers("x", 2, 1, 2), s.numbers("hidden", 1, 3), s.numbers("cell", 1, 4), all(0))
	s.print(hidden, cell)
	// Output:
	// [1 1] [0.482]
	// [1 1] [2]
}

// The sums of the rows that two sequences of ids name, all of which are 1.
func ExampleFusedEmbeddingSeqPool() {
	s := newSketch()
	ids := layers.Cast(s.sequences("ids", 1, []int64{3, 1}, 4, 0, 4, 7), tensor.Int64)
	s.print(layers.FusedEmbeddingSeqPool(ids, 10, 2, layers.PaddingIndex(0), layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)})))
	// Output: [2 2] [2 2 1 1]
}
