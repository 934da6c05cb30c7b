package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleGather() {
	s := newSketch()
	s.print(layers.Gather(s.numbers("x", 2, 1, 2, 3, 4, 5, 6), s.classes("i", 2, 0, 2)))
	// Output: [3 2] [5 6 1 2 5 6]
}

func ExampleSendReceive() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 6, 1, 2, 3, 4, 5, 6), []int64{3, 2})
	edges := s.classes("edges", 0, 1, 2, 1, 1, 0)
	from := layers.Reshape(layers.Slice(edges, []int{0}, []int64{0}, []int64{3}), []int64{3})
	to := layers.Reshape(layers.Slice(edges, []int{0}, []int64{3}, []int64{6}), []int64{3})
	s.print(layers.SendReceive(x, from, to, "SUM", 2))
	// Output: [2 2] [5 6 4 6]
}

func ExampleIndexSelect() {
	s := newSketch()
	s.print(layers.IndexSelect(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), s.classes("i", 2, 0), 1))
	// Output: [2 2] [3 1 6 4]
}

func ExampleRepeatInterleave() {
	s := newSketch()
	s.print(layers.RepeatInterleave(s.numbers("x", 2, 1, 2, 3, 4), 2, 1))
	// Output: [2 4] [1 1 2 2 3 3 4 4]
}

func ExampleGatherND() {
	s := newSketch()
	index := layers.Concat([]layers.Variable{s.classes("row", 0, 1), s.classes("column", 1, 0)}, 1)
	s.print(layers.GatherND(s.numbers("x", 2, 1, 2, 3, 4), index))
	// Output: [2] [2 3]
}

func ExampleIndexSample() {
	s := newSketch()
	s.print(layers.IndexSample(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), s.classes("i", 2, 0)))
	// Output: [2 1] [3 4]
}

func ExampleScatter() {
	s := newSketch()
	s.print(layers.Scatter(s.numbers("x", 2, 1, 2, 3, 4), s.classes("i", 1), s.numbers("u", 2, 7, 8)))
	// Output: [2 2] [1 2 7 8]
}

func ExampleScatterNDAdd() {
	s := newSketch()
	s.print(layers.ScatterNDAdd(s.numbers("x", 2, 1, 2, 3, 4), s.classes("i", 1, 1), s.numbers("u", 2, 10, 20, 30, 40)))
	// Output: [2 2] [1 2 43 64]
}

func ExampleIndexAdd() {
	s := newSketch()
	index := layers.Reshape(s.classes("i", 1, 1), []int64{-1})
	s.print(layers.IndexAdd(s.numbers("x", 2, 1, 2, 3, 4), index, s.numbers("u", 2, 10, 20, 30, 40), 0))
	// Output: [2 2] [1 2 43 64]
}

func ExampleScatterND() {
	s := newSketch()
	s.print(layers.ScatterND(s.classes("i", 2), s.numbers("u", 2, 10, 20), []int64{3, 2}))
	// Output: [3 2] [0 0 0 0 10 20]
}

func ExampleWhere() {
	s := newSketch()
	x, y := s.numbers("x", 3, 1, 5, 3), s.numbers("y", 3, 4, 2, 6)
	s.print(layers.Where(layers.LessThan(x, y), x, y))
	// Output: [1 3] [1 2 3]
}

func ExampleMultiplex() {
	s := newSketch()
	xs := []layers.Variable{s.numbers("x", 2, 1, 2, 3, 4), s.numbers("y", 2, 5, 6, 7, 8)}
	s.print(layers.Multiplex(xs, s.classes("i", 1, 0)))
	// Output: [2 2] [5 6 3 4]
}

func ExampleOneHot() {
	s := newSketch()
	s.print(layers.OneHot(s.classes("x", 2, 0), 3))
	// Output: [2 3] [0 0 1 1 0 0]
}

func ExampleRange() {
	s := newSketch()
	s.print(layers.Range(s.Model, 1, 8, 3, layers.DType(tensor.Int64)))
	// Output: [3] [1 4 7]
}

func ExampleLinspace() {
	s := newSketch()
	s.print(layers.Linspace(s.Model, 0, 1, 5))
	// Output: [5] [0 0.25 0.5 0.75 1]
}

func ExampleLogspace() {
	s := newSketch()
	s.print(layers.Logspace(s.Model, 2, 0, 3, 4))
	// Output: [4] [1 2 4 8]
}

func ExampleEye() {
	s := newSketch()
	s.print(layers.Eye(s.Model, 2, 3))
	// Output: [2 3] [1 0 0 0 1 0]
}

func ExampleDiag() {
	s := newSketch()
	s.print(layers.Diag(s.numbers("x", 2, 1, 2, 3, 4)))
	// Output: [2] [1 4]
}

func ExampleTril() {
	s := newSketch()
	s.print(layers.Tril(s.numbers("x", 2, 1, 2, 3, 4), 0))
	// Output: [2 2] [1 0 3 4]
}

func ExampleTriu() {
	s := newSketch()
	s.print(layers.Triu(s.numbers("x", 2, 1, 2, 3, 4), 1))
	// Output: [2 2] [0 2 0 0]
}

func ExampleFillLike() {
	s := newSketch()
	s.print(layers.FillLike(s.numbers("x", 2, 1, 2), 0.5))
	// Output: [1 2] [0.5 0.5]
}
