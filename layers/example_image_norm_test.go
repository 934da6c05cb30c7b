package layers_test

import "github.com/edl-go/edl/layers"

// Each pair of channels gets mean 0 and variance 1.
func ExampleGroupNorm() {
	s := newSketch()
	s.print(layers.GroupNorm(s.numbers("x", 4, 1, 3, 10, 2), 2, layers.Epsilon(0)))
	// Output: [1 4] [-1 1 1 -1]
}

func ExampleInstanceNorm() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 3, 10, 2), []int64{0, 2, 1, 2})
	s.print(layers.InstanceNorm(image, layers.Epsilon(0)))
	// Output: [1 2 1 2] [-1 1 1 -1]
}

func ExampleAffineChannel() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 2, 1, 2})
	s.print(layers.AffineChannel(image, layers.Param(layers.ParamAttr{Initializer: layers.Constant(10)}),
		layers.Bias(layers.ParamAttr{Initializer: layers.Constant(1)})))
	// Output: [1 2 1 2] [11 21 31 41]
}

// With n 3 the middle channel is divided by 1 + 1² + 2² + 3² = 15.
func ExampleLRN() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 3, 1, 2, 3), []int64{0, 3, 1, 1})
	s.print(layers.LRN(image, 3, 1, 1, 1))
	// Output: [1 3 1 1] [0.167 0.133 0.214]
}

func ExamplePixelShuffle() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 4, 1, 1})
	s.print(layers.PixelShuffle(image, 2))
	// Output: [1 1 2 2] [1 2 3 4]
}

func ExamplePixelUnshuffle() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 1, 2, 2})
	s.print(layers.PixelUnshuffle(image, 2))
	// Output: [1 4 1 1] [1 2 3 4]
}

func ExampleShuffleChannel() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 6, 1, 2, 3, 4, 5, 6), []int64{0, 6, 1, 1})
	s.print(layers.ShuffleChannel(image, 2))
	// Output: [1 6 1 1] [1 4 2 5 3 6]
}

func ExampleSpaceToDepth() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), []int64{0, 4, 2, 2})
	s.print(layers.SpaceToDepth(image, 2))
	// Output: [1 16 1 1] [1 5 2 6 9 13 10 14 3 7 4 8 11 15 12 16]
}

// Two frames of one video, of four channels each: the first channel comes from the frame before, the second from the one after.
func ExampleTemporalShift() {
	s := newSketch()
	frames := layers.Reshape(s.numbers("frames", 4, 1, 2, 3, 4, 10, 20, 30, 40), []int64{0, 4, 1, 1})
	s.print(layers.TemporalShift(frames, 2, 0.25))
	// Output: [2 4 1 1] [0 20 3 4 1 0 30 40]
}

func ExamplePool3D() {
	s := newSketch()
	volume := layers.Reshape(s.numbers("voxels", 8, 1, 2, 3, 4, 5, 6, 7, 8), []int64{0, 1, 2, 2, 2})
	s.print(layers.Pool3D(volume, 2))
	s.print(layers.Pool3D(volume, 2, layers.WindowSize3D(1, 2, 2), layers.AvgPool()))
	// Output:
	// [1 1 1 1 1] [8]
	// [1 1 2 1 1] [2.5 6.5]
}

func ExampleAdaptivePool3D() {
	s := newSketch()
	volume := layers.Reshape(s.numbers("voxels", 6, 1, 2, 3, 4, 5, 6), []int64{0, 1, 1, 2, 3})
	s.print(layers.AdaptivePool3D(volume, 1, 1, 2))
	// Output: [1 1 1 1 2] [5 6]
}

// What Unpool gives has the largest pixels at their places.
func ExampleMaxPool2DWithIndex() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 9, 3, 4), []int64{0, 1, 2, 2})
	largest, places := layers.MaxPool2DWithIndex(image, 2, layers.Stride(2, 2))
	s.print(largest, layers.Cast(places, largest.DType()), layers.Unpool(largest, places, 2, layers.Stride(2, 2)))
	// Output:
	// [1 1 1 1] [9]
	// [1 1 1 1] [1]
	// [1 1 2 2] [0 9 0 0]
}

func ExampleUnpool() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 5, 6, 7, 8), []int64{0, 1, 1, 4})
	largest, places := layers.MaxPool2DWithIndex(image, 2, layers.WindowSize(1, 2), layers.Stride(1, 2))
	s.print(layers.Unpool(largest, places, 2, layers.WindowSize(1, 2), layers.Stride(1, 2)))
	// Output: [1 1 1 4] [0 6 0 8]
}

// A matrix of threes stretches the vector (1, 1) most, to six times its length.
func ExampleSpectralNorm() {
	s := newSketch()
	s.print(layers.SpectralNorm(layers.FillConstant(s.Model, 3, []int64{2, 2}), 0, 50))
	// Output: [2 2] [0.5 0.5 0.5 0.5]
}
