package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// A rate that depends on the step: 0.1 before step 2, 0.05 before step 4, then 0.01.
func ExampleSwitch() {
	for _, at := range []float32{1, 2, 5} {
		s := newSketch()
		step := layers.ReduceSum(s.numbers("step", 1, at))
		number := func(value float64) layers.Variable { return layers.FillConstant(s.Model, value, []int64{1}) }
		rate := number(0)
		set := func(value float64) func() { return func() { layers.AssignTo(rate, number(value)) } }
		layers.Switch(s.Model,
			layers.SwitchCase{If: layers.LessThan(step, number(2)), Then: set(0.1)},
			layers.SwitchCase{If: layers.LessThan(step, number(4)), Then: set(0.05)},
			layers.SwitchCase{Then: set(0.01)})
		s.print(rate)
	}
	// Output:
	// [1] [0.1]
	// [1] [0.05]
	// [1] [0.01]
}

// Powers of two, up to the first that is not below 100.
func ExampleWhile() {
	s := newSketch()
	power, limit := layers.FillConstant(s.Model, 1, []int64{1}), layers.FillConstant(s.Model, 100, []int64{1})
	i := layers.Counter(s.Model, 0)
	powers := layers.ArrayWrite(power, i, layers.CreateArray(s.Model))
	below := layers.LessThan(power, limit)
	layers.While(below, func() {
		layers.AssignTo(power, layers.Scale(power, 2, 0))
		layers.Increment(i, 1)
		layers.ArrayWrite(power, i, powers)
		layers.AssignTo(below, layers.LessThan(power, limit))
	})
	s.print(power, layers.ArrayLength(powers), layers.ArrayRead(powers, layers.Counter(s.Model, 3)))
	// Output:
	// [1] [128]
	// [1] [8]
	// [1] [8]
}

// The items of an array may have different numbers of rows.
func ExampleCreateArray() {
	s := newSketch()
	array := layers.CreateArray(s.Model, layers.DType(tensor.Float32))
	first, second := layers.Counter(s.Model, 0), layers.Counter(s.Model, 1)
	layers.ArrayWrite(s.numbers("x", 2, 1, 2, 3, 4), first, array)
	layers.ArrayWrite(layers.Slice(s.numbers("y", 2, 5, 6, 7, 8), []int{0}, []int64{0}, []int64{1}), second, array)
	s.print(layers.ArrayRead(array, first), layers.ArrayRead(array, second))
	// Output:
	// [2 2] [1 2 3 4]
	// [1 2] [5 6]
}

func ExampleIsEmpty() {
	s := newSketch()
	s.print(layers.IsEmpty(s.numbers("x", 2, 1, 2)))
	// Output: [1] [false]
}

func ExampleArrayWrite() {
	s := newSketch()
	array := layers.ArrayWrite(s.numbers("x", 2, 1, 2), layers.Counter(s.Model, 1), layers.CreateArray(s.Model))
	s.print(layers.ArrayLength(array)) // item 0 is empty
	// Output: [1] [2]
}

func ExampleArrayRead() {
	s := newSketch()
	i := layers.Counter(s.Model, 0)
	array := layers.ArrayWrite(s.numbers("x", 2, 1, 2), i, layers.CreateArray(s.Model))
	s.print(layers.ArrayRead(array, i))
	// Output: [1 2] [1 2]
}

func ExampleArrayLength() {
	s := newSketch()
	s.print(layers.ArrayLength(layers.CreateArray(s.Model)))
	// Output: [1] [0]
}

func ExampleCounter() {
	s := newSketch()
	s.print(layers.Increment(layers.Counter(s.Model, 3), 1))
	// Output: [1] [4]
}

// Running sums of two sequences, the second of which begins later in the batch and ends first.
func ExampleNewDynamicRNN() {
	s := newSketch()
	x := s.sequences("x", 1, []int64{3, 2}, 1, 2, 3, 10, 20)
	rnn := layers.NewDynamicRNN(s.Model)
	rnn.Block(func() {
		now := rnn.StepInput(x)
		before := rnn.Memory([]int64{1}, 0)
		sum := layers.Add(before, now)
		rnn.UpdateMemory(before, sum)
		rnn.Output(sum)
	})
	sums := rnn.Results()[0]
	s.print(sums, layers.SequencePool(sums, "last"))
	// Output:
	// [5 1] [1 3 6 10 30]
	// [2 1] [6 30]
}

// Each sequence begins with a value of its own, and adds another one in every step.
func ExampleDynamicRNN_InitialMemory() {
	s := newSketch()
	x := s.sequences("x", 1, []int64{1, 3}, 1, 1, 1, 1)
	first, each := s.numbers("first", 1, 100, 200), s.numbers("each", 1, 5, 7)
	rnn := layers.NewDynamicRNN(s.Model)
	rnn.Block(func() {
		now := rnn.StepInput(x)
		before := rnn.InitialMemory(first)
		next := layers.Sums([]layers.Variable{before, now, rnn.StaticInput(each)})
		rnn.UpdateMemory(before, next)
		rnn.Output(next)
	})
	s.print(rnn.Results()[0])
	// Output: [4 1] [106 208 216 224]
}
