package layers_test

import (
	"fmt"

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

// The larger of two numbers, and how it was found.
func ExampleCond() {
	s := newSketch()
	x, y := layers.ReduceSum(s.numbers("x", 1, 3)), layers.ReduceSum(s.numbers("y", 1, 5))
	results := layers.Cond(layers.LessThan(x, y),
		func() []layers.Variable { return []layers.Variable{layers.Assign(y), layers.Counter(s.Model, 2)} },
		func() []layers.Variable { return []layers.Variable{layers.Assign(x), layers.Counter(s.Model, 1)} })
	s.print(results...)
	// Output:
	// [1] [5]
	// [1] [2]
}

// The first case that holds.
func ExampleCase() {
	s := newSketch()
	x := layers.ReduceSum(s.numbers("x", 1, 3))
	number := func(value float64) layers.Variable { return layers.FillConstant(s.Model, value, []int64{1}) }
	give := func(value float64) func() []layers.Variable {
		return func() []layers.Variable { return []layers.Variable{number(value)} }
	}
	s.print(layers.Case([]layers.CondCase{
		{If: layers.LessThan(x, number(2)), Then: give(10)},
		{If: layers.LessThan(x, number(4)), Then: give(20)},
	}, give(30))...)
	// Output: [1] [20]
}

// Case 2 of three, one of which is done if no index fits.
func ExampleSelectCase() {
	s := newSketch()
	give := func(value float64) func() []layers.Variable {
		return func() []layers.Variable {
			return []layers.Variable{layers.FillConstant(s.Model, value, []int64{1})}
		}
	}
	s.print(layers.SelectCase(layers.Counter(s.Model, 2), []layers.IndexCase{{Index: 1, Then: give(10)}, {Index: 2, Then: give(20)}}, give(30))...)
	// Output: [1] [20]
}

// The sum of the numbers below 5.
func ExampleWhileLoop() {
	s := newSketch()
	limit, one := layers.Counter(s.Model, 5), layers.Counter(s.Model, 1)
	end := layers.WhileLoop(
		func(v []layers.Variable) layers.Variable { return layers.LessThan(v[0], limit) },
		func(v []layers.Variable) []layers.Variable {
			return []layers.Variable{layers.Sums([]layers.Variable{v[0], one}), layers.Sums([]layers.Variable{v[1], v[0]})}
		},
		[]layers.Variable{layers.Counter(s.Model, 0), layers.Counter(s.Model, 0)})
	s.print(end...)
	// Output:
	// [1] [5]
	// [1] [10]
}

// Halves what is above 10, and leaves other rows as they are.
func ExampleNewIfElse() {
	s := newSketch()
	x := s.numbers("x", 1, 4, 12, 7, 30)
	ie := layers.NewIfElse(layers.GreaterThan(x, layers.FillLike(x, 10)))
	ie.True(func() { ie.Output(layers.Scale(ie.Input(x), 0.5, 0)) })
	ie.False(func() { ie.Output(ie.Input(x)) })
	s.print(ie.Result())
	// Output: [4 1] [4 6 7 15]
}

func ExampleSelectInput() {
	s := newSketch()
	mask := layers.FillConstant(s.Model, 1, []int64{1}, layers.DType(tensor.Int32))
	s.print(layers.SelectInput([]layers.Variable{s.numbers("x", 1, 3), s.numbers("y", 1, 5)}, mask))
	// Output: [1 1] [5]
}

func ExampleSelectOutput() {
	s := newSketch()
	mask := layers.FillConstant(s.Model, 1, []int64{1}, layers.DType(tensor.Int32))
	s.print(layers.SelectOutput(s.numbers("x", 1, 3), mask, 2)...)
	// Output:
	// [1 1] [0]
	// [1 1] [3]
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

// Two rows and one row, joined along axis 0.
func ExampleTensorArrayToTensor() {
	s := newSketch()
	array := layers.CreateArray(s.Model)
	layers.ArrayWrite(s.numbers("x", 2, 1, 2, 3, 4), layers.Counter(s.Model, 0), array)
	layers.ArrayWrite(layers.Slice(s.numbers("y", 2, 5, 6, 7, 8), []int{0}, []int64{0}, []int64{1}), layers.Counter(s.Model, 1), array)
	joined, sizes := layers.TensorArrayToTensor(array, 0, false)
	s.print(joined, sizes)
	// Output:
	// [3 2] [1 2 3 4 5 6]
	// [2] [2 1]
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
	sums := rnn.Result()
	s.print(sums, layers.SequencePool(sums, "last"))
	// Output:
	// [5 1] [1 3 6 10 30]
	// [2 1] [6 30]
}

// Two texts, of two sentences and of one. A step reads one sentence of each text, and adds its sum to those of the sentences before.
func ExampleDynamicRNN_StepSequences() {
	s := newSketch()
	words, _ := tensor.FromSlice([]float32{1, 2, 3, 10, 20}, 5, 1)
	words.SetLoD([][]int64{{0, 2, 3}, {0, 2, 3, 5}})
	s.feed["words"] = words
	x := layers.Data(s.Model, "words", layers.Dims(1), layers.LoD(2))
	rnn := layers.NewDynamicRNN(s.Model)
	rnn.Block(func() {
		sentence := layers.SequencePool(rnn.StepSequences(x), "sum")
		before := rnn.Memory([]int64{1}, 0)
		sum := layers.Add(before, sentence)
		rnn.UpdateMemory(before, sum)
		rnn.Output(sum)
	})
	s.print(rnn.Result())
	// Output: [3 1] [3 6 30]
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
	s.print(rnn.Result())
	// Output: [4 1] [106 208 216 224]
}

// Running sums over 3 steps of 2 records, from the first step on, and from the last one.
func ExampleNewStaticRNN() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 2, 1, 10, 2, 20, 3, 30), []int64{3, 2, 1}) // [steps, records, 1]
	for _, opts := range [][]layers.Option{nil, {layers.Reverse()}} {
		rnn := layers.NewStaticRNN(s.Model, opts...)
		rnn.Block(func() {
			now := rnn.StepInput(x)
			sum := rnn.Memory([]int64{1}, 0)
			next := layers.Add(sum, now)
			rnn.UpdateMemory(sum, next)
			rnn.Output(next)
		})
		s.print(rnn.Result())
	}
	// Output:
	// [3 2 1] [1 10 3 30 6 60]
	// [3 2 1] [6 60 5 50 3 30]
}

// Each record begins with a value of its own, and doubles it in every step. The network has two outputs.
func ExampleStaticRNN_InitialMemory() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 1, 1, 2, 3, 4), []int64{2, 2, 1})
	first := s.numbers("first", 1, 100, 200)
	rnn := layers.NewStaticRNN(s.Model)
	rnn.Block(func() {
		now, before := rnn.StepInput(x), rnn.InitialMemory(first)
		rnn.UpdateMemory(before, layers.Scale(before, 2, 0))
		rnn.Output(layers.Add(now, before), before)
	})
	results := rnn.Results()
	s.print(results[0], results[1])
	// Output:
	// [2 2 1] [101 202 203 404]
	// [2 2 1] [100 200 200 400]
}

// The words of two prefixes of one sentence. The first has ended with word 0. The best words go on from the second.
func ExampleBeamSearch() {
	s := newSketch()
	feed := func(v layers.Variable) { s.feed[v.Name()].SetLoD([][]int64{{0, 2}, {0, 1, 2}}) }
	last, score := s.classes("last", 0, 3), s.numbers("score", 1, -4, -1)
	feed(last)
	feed(score)
	ids := layers.Cast(s.numbers("ids", 2, 5, 6, 7, 8), tensor.Int64)
	sums := layers.LoDReset(s.numbers("sums", 2, -9, -9, -2, -3), layers.SequencePool(layers.Data(s.Model, "groups", layers.Dims(1), layers.LoD(2)), "sum"))
	s.feed["groups"], _ = tensor.FromSlice([]float32{0, 0}, 2, 1)
	s.feed["groups"].SetLoD([][]int64{{0, 2}, {0, 1, 2}})
	chosen, scores, _ := layers.BeamSearch(last, score, ids, sums, 3, 0)
	s.print(chosen, scores)
	// Output:
	// [3 1] [0 7 8]
	// [3 1] [-4 -2 -3]
}

// Three sentences of two steps after word 1: the first step has chosen words 3 and 4, and the second the end (0) after 3, and 5 and the end after 4.
func ExampleBeamSearchDecode() {
	s := newSketch()
	words, scores := layers.CreateArray(s.Model, layers.DType(tensor.Int64)), layers.CreateArray(s.Model)
	for t, step := range []struct {
		words  []int64
		scores []float32
		lod    [][]int64
	}{
		{[]int64{1}, []float32{0}, [][]int64{{0, 1}, {0, 1}}},
		{[]int64{3, 4}, []float32{-1, -2}, [][]int64{{0, 1}, {0, 2}}},
		{[]int64{0, 5, 0}, []float32{-6, -3, -4}, [][]int64{{0, 2}, {0, 1, 3}}},
	} {
		word, score := fmt.Sprint("words", t), fmt.Sprint("scores", t)
		s.feed[word], _ = tensor.FromSlice(step.words, int64(len(step.words)), 1)
		s.feed[score], _ = tensor.FromSlice(step.scores, int64(len(step.scores)), 1)
		s.feed[word].SetLoD(step.lod)
		s.feed[score].SetLoD(step.lod)
		at := layers.Counter(s.Model, int64(t))
		layers.ArrayWrite(layers.Data(s.Model, word, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(2)), at, words)
		layers.ArrayWrite(layers.Data(s.Model, score, layers.Dims(1), layers.LoD(2)), at, scores)
	}
	s.print(layers.BeamSearchDecode(words, scores, 3, 0))
	// Output:
	// [9 1] [1 4 5 1 4 0 1 3 0]
	// [9 1] [0 -2 -3 0 -2 -4 0 -1 -6]
}
