package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// sequences declares a variable of rows of the given width that are cut into sequences of these lengths, and feeds these values.
func (s *sketch) sequences(name string, width int64, lengths []int64, values ...float32) layers.Variable {
	offsets := []int64{0}
	for _, n := range lengths {
		offsets = append(offsets, offsets[len(offsets)-1]+n)
	}
	rows, _ := tensor.FromSlice(values, int64(len(values))/width, width)
	rows.SetLoD([][]int64{offsets})
	s.feed[name] = rows
	return layers.Data(s.Model, name, layers.Dims(width), layers.LoD(1))
}

// Two sequences, of three rows and of one.
func ExampleSequencePool() {
	s := newSketch()
	x := s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)
	s.print(
		layers.SequencePool(x, "max"),
		layers.SequencePool(x, "average"),
		layers.SequencePool(x, "sum"),
	)
	// Output:
	// [2 2] [5 8 7 7]
	// [2 2] [3 2 7 7]
	// [2 2] [9 6 7 7]
}

func ExampleSequenceFirstStep() {
	s := newSketch()
	s.print(layers.SequenceFirstStep(s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)))
	// Output: [2 2] [1 8 7 7]
}

func ExampleSequenceLastStep() {
	s := newSketch()
	s.print(layers.SequenceLastStep(s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)))
	// Output: [2 2] [5 0 7 7]
}

// With weights of 0 nothing is remembered of the steps before but the cell, which gates that are open at 100 add up.
func ExampleDynamicLSTM() {
	s := newSketch()
	gates := s.sequences("gates", 4, []int64{3, 1},
		1, 100, 100, 100,
		2, 100, 100, 100,
		3, 100, 100, 100,
		4, 100, 100, 100)
	hidden, cell := layers.DynamicLSTM(gates, 4, layers.NoPeepholes(), layers.LSTMActs("sigmoid", "tanh", "identity"),
		layers.Param(layers.ParamAttr{Initializer: layers.Constant(0)}))
	s.print(cell, layers.SequenceLastStep(hidden))
	// Output:
	// [4 1] [1 3 6 4]
	// [2 1] [1 0.999]
}
