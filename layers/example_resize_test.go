package layers_test

import "github.com/edl-go/edl/layers"

// line feeds an image of one row.
func (s *sketch) line(values ...float32) layers.Variable {
	n := int64(len(values))
	return layers.Reshape(s.numbers("pixels", n, values...), []int64{0, 1, 1, n})
}

func ExampleImageResize() {
	s := newSketch()
	image := s.line(0, 10, 20)
	s.print(layers.ImageResize(image, []int64{1, 5}, "BILINEAR"))
	s.print(layers.ImageResize(image, []int64{2, 3}, "NEAREST"))
	s.print(layers.ImageResize(image, []int64{1, 5}, "BICUBIC"))
	// Output:
	// [1 1 1 5] [0 5 10 15 20]
	// [1 1 2 3] [0 10 20 0 10 20]
	// [1 1 1 5] [0 4.06 10 15.9 20]
}

func ExampleResizeBilinear() {
	s := newSketch()
	image := s.line(0, 10, 20)
	s.print(layers.ResizeBilinear(image, 1, 6, layers.AlignCorners(false)))
	s.print(layers.ResizeBilinear(image, 1, 6, layers.AlignCorners(false), layers.AlignCentres()))
	// Output:
	// [1 1 1 6] [0 5 10 15 20 20]
	// [1 1 1 6] [0 2.5 7.5 12.5 17.5 20]
}

func ExampleResizeNearest() {
	s := newSketch()
	s.print(layers.ResizeNearest(s.line(0, 10, 20), 1, 6, layers.AlignCorners(false)))
	// Output: [1 1 1 6] [0 0 10 10 20 20]
}

func ExampleResizeTrilinear() {
	s := newSketch()
	volume := layers.Reshape(s.numbers("voxels", 2, 0, 10), []int64{0, 1, 2, 1, 1})
	s.print(layers.ResizeTrilinear(volume, 3, 1, 2))
	// Output: [1 1 3 1 2] [0 0 5 5 10 10]
}

func ExampleInterpolate() {
	s := newSketch()
	s.print(layers.Interpolate(s.line(0, 10, 20), []int64{1, 6}, "nearest"))
	s.print(layers.Interpolate(layers.Reshape(s.numbers("line", 2, 0, 10), []int64{0, 1, 2}), []int64{3}, "linear", layers.AlignCorners(true)))
	// Output:
	// [1 1 1 6] [0 0 10 10 20 20]
	// [1 1 3] [0 5 10]
}
