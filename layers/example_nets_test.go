package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleSetValue() {
	s := newSketch()
	s.print(layers.SetValue(s.numbers("x", 3, 1, 2, 3), s.numbers("values", 1, 9), []int{1}, []int64{0}, []int64{2}))
	// Output: [1 3] [9 9 3]
}

func ExampleBinCount() {
	s := newSketch()
	x := layers.Reshape(s.classes("x", 2, 0, 2), []int64{-1})
	s.print(layers.BinCount(x, 0))
	// Output: [3] [1 0 2]
}

func ExampleUniqueConsecutive() {
	s := newSketch()
	x := layers.Reshape(s.classes("x", 3, 3, 1, 3), []int64{-1})
	values, counts := layers.UniqueConsecutive(x)
	s.print(values, counts)
	// Output:
	// [3] [3 1 3]
	// [3] [2 1 1]
}

func ExampleImgConvGroup() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), []int64{0, 1, 4, 4})
	pooled := layers.ImgConvGroup(image, layers.ConvGroup{Filters: []int64{2, 1}, BatchNorm: true, PoolSize: 2, PoolStride: 2}, "relu")
	s.print(layers.Scale(pooled, 0, 1))
	// Output: [1 1 2 2] [1 1 1 1]
}

func ExampleGLU() {
	s := newSketch()
	s.print(layers.GLU(s.numbers("x", 4, 1, 2, 0, 100), 1))
	// Output: [1 2] [0.5 2]
}

// The queries are 0, so each position counts as much as any other.
func ExampleScaledDotProductAttention() {
	s := newSketch()
	q := layers.Reshape(s.numbers("q", 2, 0, 0), []int64{0, 1, 2})
	k := layers.Reshape(s.numbers("k", 4, 1, 2, 3, 4), []int64{0, 2, 2})
	s.print(layers.ScaledDotProductAttention(q, k, layers.Reshape(k, []int64{0, 2, 2}), 2, 0))
	// Output: [1 1 2] [2 3]
}

func ExampleCreateParameter() {
	s := newSketch()
	w := layers.CreateParameter(s.Model, []int64{2, 2}, tensor.Float32, layers.ParamAttr{Name: "w", Initializer: layers.Constant(3)})
	s.print(layers.MatMul(s.numbers("x", 2, 1, 2), w))
	// Output: [1 2] [9 9]
}
