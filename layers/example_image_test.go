package layers_test

import "github.com/edl-go/edl/layers"

var allOnes = layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)})

// Each pixel goes to a window of 2 x 2 of its own.
func ExampleConv2DTranspose() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 4, 1, 2, 3, 4), []int64{0, 1, 2, 2})
	s.print(layers.Conv2DTranspose(image, 1, 2, allOnes, layers.Stride(2, 2)))
	s.print(layers.Conv2DTranspose(image, 1, 2, allOnes, layers.Stride(2, 2), layers.Padding(1, 1), layers.OutputSize(3, 2)))
	// Output:
	// [1 1 4 4] [1 1 2 2 1 1 2 2 3 3 4 4 3 3 4 4]
	// [1 1 3 2] [1 2 3 4 3 4]
}

// A filter of ones adds up the window of 2 x 2 x 2 voxels.
func ExampleConv3D() {
	s := newSketch()
	volume := layers.Reshape(s.numbers("voxels", 8, 1, 2, 3, 4, 5, 6, 7, 8), []int64{0, 1, 2, 2, 2})
	s.print(layers.Conv3D(volume, 1, 2, allOnes))
	s.print(layers.Conv3D(volume, 1, 1, allOnes, layers.WindowSize3D(2, 1, 1), layers.Stride3D(1, 2, 1)))
	// Output:
	// [1 1 1 1 1] [36]
	// [1 1 1 1 2] [6 8]
}

func ExampleConv3DTranspose() {
	s := newSketch()
	volume := layers.Reshape(s.numbers("voxels", 2, 1, 2), []int64{0, 1, 1, 1, 2})
	s.print(layers.Conv3DTranspose(volume, 1, 1, allOnes, layers.WindowSize3D(2, 1, 2)))
	// Output: [1 1 2 1 3] [1 3 2 1 3 2]
}

// The largest pixel of the image, and that of each quarter.
func ExampleSPP() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 8, 1, 2, 3, 4, 5, 6, 7, 8), []int64{0, 1, 2, 4})
	s.print(layers.SPP(image, 2), layers.SPP(image, 2, layers.AvgPool()))
	// Output:
	// [1 5] [8 2 4 6 8]
	// [1 5] [4.5 1.5 3.5 5.5 7.5]
}
