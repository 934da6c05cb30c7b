package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
)

// A filter of ones adds up each window of 2 x 2 pixels.
func ExampleConv2D() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{0, 1, 3, 3})
	ones := layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)})
	s.print(layers.Conv2D(image, 1, 2, ones, layers.NoBias()))
	s.print(layers.Conv2D(image, 1, 2, ones, layers.NoBias(), layers.Padding(1, 1), layers.Stride(2, 2)))
	// Output:
	// [1 1 2 2] [12 16 24 28]
	// [1 1 2 2] [1 5 11 28]
}

func ExamplePool2D() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), []int64{0, 1, 4, 4})
	s.print(
		layers.Pool2D(image, 2, layers.Stride(2, 2)),
		layers.Pool2D(image, 0, layers.AvgPool(), layers.GlobalPooling()),
	)
	// Output:
	// [1 1 2 2] [6 8 14 16]
	// [1 1 1 1] [8.5]
}

// Each channel of the batch gets mean 0 and variance 1.
func ExampleBatchNorm() {
	s := newSketch()
	s.print(layers.BatchNorm(s.numbers("x", 2, 1, 10, 3, 30)))
	// Output: [2 2] [-1 -1 1 1]
}

// Each record gets mean 0 and variance 1.
func ExampleLayerNorm() {
	s := newSketch()
	s.print(layers.LayerNorm(s.numbers("x", 2, 1, 3, 10, 30)))
	// Output: [2 2] [-1 1 -1 1]
}

// A clone for testing drops nothing; the scale makes up for what training drops.
func ExampleDropout() {
	s := newSketch()
	layers.Dropout(s.numbers("x", 2, 1, 2), 0.5, layers.UpscaleInTrain())
	p, err := s.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	op := p.CloneForTest().Global().Ops[0]
	testing, _ := op.Bool("is_test")
	fmt.Println(op.Type, testing)
	// Output: dropout true
}

func ExampleSimpleImgConvPool() {
	m := layers.NewModel()
	image := layers.Data(m, "image", layers.Dims(1, 28, 28))
	h := layers.SimpleImgConvPool(image, 20, 5, 2, 2, layers.Act("relu"))
	h = layers.BatchNorm(h)
	fmt.Println(layers.SimpleImgConvPool(h, 50, 5, 2, 2, layers.Act("relu")))
	// Output: pool2d_1.tmp_0 float32[-1 50 4 4]
}
