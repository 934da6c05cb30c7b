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
