package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// words declares whole numbers, one in each row, in sequences of these lengths, and feeds these.
func (s *sketch) words(name string, lengths []int64, values ...int64) layers.Variable {
	rows, _ := tensor.FromSlice(values, int64(len(values)), 1)
	offsets := []int64{0}
	for _, n := range lengths {
		offsets = append(offsets, offsets[len(offsets)-1]+n)
	}
	rows.SetLoD([][]int64{offsets})
	s.feed[name] = rows
	return layers.Data(s.Model, name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
}

func ExampleSequenceExpand() {
	s := newSketch()
	s.print(layers.SequenceExpand(s.numbers("x", 1, 7, 8, 9), s.sequences("y", 1, []int64{2, 0, 3}, 0, 0, 0, 0, 0)))
	// Output: [5 1] [7 7 9 9 9]
}

func ExampleSequenceExpandAs() {
	s := newSketch()
	s.print(layers.SequenceExpandAs(s.numbers("x", 2, 1, 2, 3, 4), s.sequences("y", 1, []int64{2, 1}, 0, 0, 0)))
	// Output: [3 2] [1 2 1 2 3 4]
}

func ExampleSequenceConcat() {
	s := newSketch()
	x, y := s.sequences("x", 1, []int64{2, 1}, 1, 2, 3), s.sequences("y", 1, []int64{1, 2}, 4, 5, 6)
	s.print(layers.SequenceConcat([]layers.Variable{x, y}))
	// Output: [6 1] [1 2 4 3 5 6]
}

func ExampleSequenceSlice() {
	s := newSketch()
	x := s.sequences("x", 1, []int64{3, 2}, 1, 2, 3, 4, 5)
	s.print(layers.SequenceSlice(x, s.classes("from", 1, 0), s.classes("count", 2, 1)))
	// Output: [3 1] [2 3 4]
}

func ExampleSequenceReshape() {
	s := newSketch()
	s.print(layers.SequenceSoftmax(layers.SequenceReshape(s.sequences("x", 2, []int64{1, 2}, 3, 3, 4, 4, 4, 4), 1)))
	// Output: [6 1] [0.5 0.5 0.25 0.25 0.25 0.25]
}

func ExampleSequenceErase() {
	s := newSketch()
	s.print(layers.SequenceErase(s.words("x", []int64{3, 2}, 1, 0, 2, 0, 3), []int{0}))
	// Output: [3 1] [1 2 3]
}

func ExampleSequenceEnumerate() {
	s := newSketch()
	s.print(layers.SequenceEnumerate(s.words("x", []int64{3, 1}, 1, 2, 3, 4), 2, 0))
	// Output: [4 2] [1 2 2 3 3 0 4 0]
}

func ExampleSequenceReverse() {
	s := newSketch()
	s.print(layers.SequenceReverse(s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4)))
	// Output: [4 1] [3 2 1 4]
}

func ExampleSequenceScatter() {
	s := newSketch()
	ids := s.words("ids", []int64{2, 1}, 0, 2, 1)
	s.print(layers.SequenceScatter(s.numbers("x", 3, 0, 0, 0, 1, 1, 1), ids, s.sequences("updates", 1, []int64{2, 1}, 5, 6, 7)))
	// Output: [2 3] [5 0 6 1 8 1]
}

func ExampleSequencePad() {
	s := newSketch()
	padded, lengths := layers.SequencePad(s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4), layers.FillConstant(s.Model, -1, []int64{1}))
	s.print(padded, lengths)
	// Output:
	// [2 3 1] [1 2 3 4 -1 -1]
	// [2] [3 1]
}

func ExampleSequenceUnpad() {
	s := newSketch()
	padded, lengths := layers.SequencePad(s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4), layers.FillConstant(s.Model, 0, []int64{1}))
	s.print(layers.SequenceUnpad(layers.Square(padded), lengths))
	// Output: [4 1] [1 4 9 16]
}

func ExampleSequenceMask() {
	s := newSketch()
	_, lengths := layers.SequencePad(s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4), layers.FillConstant(s.Model, 0, []int64{1}))
	s.print(layers.SequenceMask(lengths), layers.SequenceMask(lengths, layers.MaxLength(2), layers.DType(tensor.Int64)))
	// Output:
	// [2 3] [1 1 1 1 0 0]
	// [2 2] [1 1 1 0]
}

func ExampleLoDReset() {
	s := newSketch()
	x, y := s.sequences("x", 1, []int64{4}, 1, 2, 3, 4), s.sequences("y", 1, []int64{1, 3}, 0, 0, 0, 0)
	s.print(layers.SequencePool(layers.LoDReset(x, y), "sum"))
	// Output: [2 1] [1 9]
}

func ExampleLoDResetTo() {
	s := newSketch()
	s.print(layers.SequencePool(layers.LoDResetTo(s.numbers("x", 1, 1, 2, 3, 4), []int{0, 3, 4}), "sum"))
	// Output: [2 1] [6 4]
}

func ExampleRowConv() {
	s := newSketch()
	s.print(layers.RowConv(s.sequences("x", 1, []int64{3, 1}, 1, 2, 3, 4), 1, all(1)))
	// Output: [4 1] [3 5 3 4]
}

func ExampleAddPositionEncoding() {
	s := newSketch()
	s.print(layers.AddPositionEncoding(s.sequences("x", 4, []int64{2}, 0, 0, 0, 0, 0, 0, 0, 0), 1, 1))
	// Output: [2 4] [0 0 1 1 0.841 0.0001 0.54 1]
}

func ExampleIm2Sequence() {
	s := newSketch()
	image := layers.Reshape(s.numbers("x", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{-1, 1, 3, 3})
	s.print(layers.Im2Sequence(image, 2, 2), layers.SequencePool(layers.Im2Sequence(image, 1, 1), "sum"))
	// Output:
	// [4 4] [1 2 4 5 2 3 5 6 4 5 7 8 5 6 8 9]
	// [1 1] [45]
}
