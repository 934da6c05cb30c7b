package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
)

// Without Axes, every axis of extent 1 goes.
func ExampleSqueeze() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1, 3, 1))
	fmt.Println(layers.Squeeze(x, layers.Axes(-1)))
	fmt.Println(layers.Squeeze(x))
	// Output:
	// squeeze2_0.tmp_0 float32[-1 1 3]
	// squeeze2_1.tmp_0 float32[-1 3]
}

func ExampleUnsqueeze() {
	s := newSketch()
	s.print(layers.Unsqueeze(s.numbers("x", 2, 1, 2, 3, 4), []int{1, -1}))
	// Output: [2 1 2 1] [1 2 3 4]
}

func ExampleFlatten() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(3, 4, 5))
	fmt.Println(layers.Flatten(x))
	fmt.Println(layers.Flatten(x, layers.NumFlattenDims(3)))
	// Output:
	// flatten2_0.tmp_0 float32[-1 60]
	// flatten2_1.tmp_0 float32[-1 5]
}

func ExampleExpand() {
	s := newSketch()
	s.print(layers.Expand(s.numbers("x", 2, 1, 2), []int{1, 2}))
	// Output: [1 4] [1 2 1 2]
}

func ExampleExpandAs() {
	s := newSketch()
	s.print(layers.ExpandAs(s.numbers("x", 1, 7, 8), s.numbers("y", 3, 1, 2, 3, 4, 5, 6)))
	// Output: [2 3] [7 7 7 8 8 8]
}

func ExampleBroadcastTo() {
	s := newSketch()
	s.print(layers.BroadcastTo(s.numbers("x", 1, 7, 8), []int64{-1, 2}))
	// Output: [2 2] [7 7 8 8]
}

func ExampleTile() {
	s := newSketch()
	s.print(layers.Tile(s.numbers("x", 2, 1, 2), []int{2}))
	// Output: [1 4] [1 2 1 2]
}

// Two columns become the columns of a matrix for each record.
func ExampleStack() {
	s := newSketch()
	s.print(layers.Stack([]layers.Variable{s.numbers("x", 2, 1, 2), s.numbers("y", 2, 3, 4)}, -1))
	// Output: [1 2 2] [1 3 2 4]
}

func ExampleUnstack() {
	s := newSketch()
	s.print(layers.Unstack(s.numbers("x", 2, 1, 2, 3, 4), 1)...)
	// Output:
	// [2] [1 3]
	// [2] [2 4]
}

func ExampleFlip() {
	s := newSketch()
	s.print(layers.Flip(s.numbers("x", 3, 1, 2, 3), []int{1}))
	// Output: [1 3] [3 2 1]
}

func ExampleRoll() {
	s := newSketch()
	s.print(layers.Roll(s.numbers("x", 3, 1, 2, 3), []int{1}, []int{1}))
	// Output: [1 3] [3 1 2]
}

func ExamplePad() {
	s := newSketch()
	s.print(layers.Pad(s.numbers("x", 2, 1, 2), []int{0, 0, 1, 2}, layers.PadValue(9)))
	// Output: [1 5] [9 1 2 9 9]
}

// A row of three numbers as an image, mirrored at both ends.
func ExamplePad2D() {
	s := newSketch()
	row := layers.Reshape(s.numbers("x", 3, 1, 2, 3), []int64{-1, 1, 1, 3})
	s.print(layers.Pad2D(row, 0, 0, 1, 2, layers.PadMode("reflect")))
	// Output: [1 1 1 6] [2 1 2 3 2 1]
}

func ExamplePadConstantLike() {
	s := newSketch()
	s.print(layers.PadConstantLike(s.numbers("x", 3, 1, 2, 3), s.numbers("y", 1, 7)))
	// Output: [1 3] [7 0 0]
}

func ExampleCrop() {
	s := newSketch()
	s.print(layers.Crop(s.numbers("x", 3, 1, 2, 3, 4, 5, 6), []int64{-1, 2}, []int64{0, 1}))
	// Output: [2 2] [2 3 5 6]
}

func ExampleBroadcastTensors() {
	s := newSketch()
	s.print(layers.BroadcastTensors([]layers.Variable{s.numbers("x", 1, 7, 8), s.numbers("y", 2, 1, 2, 3, 4)})...)
	// Output:
	// [2 2] [7 7 8 8]
	// [2 2] [1 2 3 4]
}

func ExampleMeshgrid() {
	s := newSketch()
	s.print(layers.Meshgrid([]layers.Variable{layers.Range(s.Model, 0, 2, 1), layers.Range(s.Model, 5, 8, 1)})...)
	// Output:
	// [2 3] [0 0 0 1 1 1]
	// [2 3] [5 6 7 5 6 7]
}
