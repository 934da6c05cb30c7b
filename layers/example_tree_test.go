package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// numbers32 declares a variable of int32 whose records have the given width, and feeds these.
func (s *sketch) numbers32(name string, width int64, values ...int32) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values))/width, width)
	return layers.Data(s.Model, name, layers.Dims(width), layers.DType(tensor.Int32))
}

// Node 1 has the child 2, of which half counts for the top, a quarter for the left and three eighths for the right.
func ExampleTreeConv() {
	s := newSketch()
	nodes := layers.Reshape(s.numbers("nodes", 3, 1, 8, 5), []int64{0, 3, 1})
	edges := layers.Reshape(s.numbers32("edges", 2, 1, 2), []int64{0, 1, 2})
	s.print(layers.TreeConv(nodes, edges, 1, 1, 2, all(1), layers.NoBias()))
	// Output: [1 3 1 1] [10 8 0]
}

func ExampleBatchFC() {
	s := newSketch()
	slots := layers.Reshape(s.numbers("x", 4, 1, 2, 3, 4), []int64{2, 1, 2})
	s.print(layers.BatchFC(slots, 1, all(1), layers.Bias(layers.ParamAttr{Initializer: layers.Constant(10)})))
	// Output: [2 1 1] [13 17]
}

// Row 0 sees itself and row 1. Row 1 has no rank.
func ExampleRankAttention() {
	s := newSketch()
	x, offsets := s.numbers("x", 2, 1, 2, 10, 20), s.numbers32("offsets", 5, 1, 1, 0, 2, 1, 0, 0, 0, 0, 0)
	s.print(layers.RankAttention(x, offsets, 2, 1, all(1)))
	// Output: [2 1] [33 0]
}

// Node 1 has the children 2, which is item 7, and 3.
func ExampleTDMChild() {
	s := newSketch()
	tree := s.numbers32("tree", 5, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7, 1, 1, 0, 0, 0, 1, 1, 0, 0)
	child, leaf := layers.TDMChild(s.numbers32("nodes", 1, 1, 2), tree, 2)
	s.print(child, leaf)
	// Output:
	// [2 1 2] [2 3 0 0]
	// [2 1 2] [1 0 0 0]
}

// Each layer has one node besides that on the way to item 1.
func ExampleTDMSampler() {
	s := newSketch()
	travel, layer := s.numbers32("travel", 2, 0, 0, 1, 3), s.numbers32("layer", 1, 1, 2, 3, 4)
	samples, labels, _ := layers.TDMSampler(s.numbers32("items", 1, 1), travel, layer, []int{1, 1}, []int{0, 2, 4})
	s.print(samples, labels)
	// Output:
	// [1 4] [1 2 3 4]
	// [1 4] [1 0 1 0]
}

func ExampleFrame() {
	s := newSketch()
	frames := layers.Frame(s.numbers("x", 5, 1, 2, 3, 4, 5), 3, 2)
	s.print(frames, layers.OverlapAdd(frames, 2))
	// Output:
	// [1 3 2] [1 3 2 4 3 5]
	// [1 5] [1 2 6 4 5]
}

func ExampleOverlapAdd() {
	s := newSketch()
	frames := layers.Reshape(s.numbers("frames", 4, 1, 2, 3, 4), []int64{2, 2})
	s.print(layers.OverlapAdd(frames, 1, layers.Axis(0)))
	// Output: [3] [1 5 4]
}

func ExampleEigh() {
	s := newSketch()
	values, _ := layers.Eigh(layers.Reshape(s.numbers("x", 4, 2, 1, 1, 2), []int64{0, 2, 2}))
	s.print(values)
	// Output: [1 2] [1 3]
}
