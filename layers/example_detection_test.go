package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// boxes feeds one image with some boxes, as a sequence.
func (s *sketch) boxes(name string, values ...float32) layers.Variable {
	n := int64(len(values) / 4)
	s.feed[name], _ = tensor.FromSlice(values, n, 4)
	s.feed[name].SetLoD([][]int64{{0, n}})
	return layers.Data(s.Model, name, layers.Dims(4), layers.LoD(1))
}

// blank feeds an image of zeros.
func (s *sketch) blank(name string, height, width int64) layers.Variable {
	return layers.Reshape(s.numbers(name, height*width, make([]float32, height*width)...), []int64{0, 1, height, width})
}

// A square of side 2, and a box that is twice as wide as high, in the middle of an image of 8 x 8.
func ExamplePriorBox() {
	s := newSketch()
	priors, _ := layers.PriorBox(s.blank("map", 1, 1), s.blank("image", 8, 8), layers.PriorBoxes{MinSizes: []float64{2}, AspectRatios: []float64{4}})
	s.print(priors)
	// Output: [1 1 2 4] [0.375 0.375 0.625 0.625 0.25 0.438 0.75 0.562]
}

func ExampleDensityPriorBox() {
	s := newSketch()
	priors, _ := layers.DensityPriorBox(s.blank("map", 1, 1), s.blank("image", 8, 8), []float64{2}, []float64{1}, []int{2})
	s.print(priors)
	// Output: [1 1 4 4] [0.125 0.125 0.375 0.375 0.625 0.125 0.875 0.375 0.125 0.625 0.375 0.875 0.625 0.625 0.875 0.875]
}

func ExampleAnchorGenerator() {
	s := newSketch()
	anchors, _ := layers.AnchorGenerator(s.blank("map", 1, 2), []float64{32}, []float64{1}, 16, 16)
	s.print(anchors)
	// Output: [1 2 1 4] [-8 -8 23 23 8 -8 39 23]
}

func ExampleIoUSimilarity() {
	s := newSketch()
	s.print(layers.IoUSimilarity(s.boxes("x", 0, 0, 4, 4), s.boxes("y", 2, 2, 6, 4, 0, 0, 4, 4)))
	// Output: [1 2] [0.2 1]
}

func ExampleBoxEncode() {
	s := newSketch()
	priors, variances := s.numbers("priors", 4, 0, 0, 4, 4), s.numbers("variances", 4, 0.5, 0.5, 1, 1)
	codes := layers.BoxEncode(s.numbers("boxes", 4, 2, 0, 6, 4), priors, variances)
	s.print(codes, layers.BoxDecode(codes, priors, variances))
	// Output:
	// [1 1 4] [1 0 0 0]
	// [1 1 4] [2 0 6 4]
}

func ExampleBoxDecode() {
	s := newSketch()
	codes := layers.Reshape(s.numbers("codes", 4, 1, 0, 0, 0), []int64{0, 1, 4})
	s.print(layers.BoxDecode(codes, s.numbers("priors", 4, 0, 0, 4, 4), s.numbers("variances", 4, 0.5, 0.5, 1, 1)))
	// Output: [1 1 4] [2 0 6 4]
}

func ExampleBoxClip() {
	s := newSketch()
	s.print(layers.BoxClip(s.boxes("boxes", -3, 2, 30, 30), s.numbers("info", 3, 20, 10, 1)))
	// Output: [1 4] [0 2 9 19]
}

func ExamplePolygonBoxTransform() {
	s := newSketch()
	image := layers.Reshape(s.numbers("distances", 4, 1, 1, 2, 2), []int64{0, 2, 1, 2})
	s.print(layers.PolygonBoxTransform(image))
	// Output: [1 2 1 2] [-1 3 -2 -2]
}

// All numbers are 0, so the box of a place lies in its middle and is as large as the anchor.
func ExampleYoloBox() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 12, make([]float32, 12)...), []int64{0, 6, 1, 2})
	boxes, scores := layers.YoloBox(x, layers.Cast(s.numbers("size", 2, 32, 64), tensor.Int32), []int{16, 8}, 1, 0.01, 32)
	s.print(boxes, scores)
	// Output:
	// [1 2 4] [8 12 24 20 40 12 56 20]
	// [1 2 1] [0.25 0.25]
}

// Two objects and three boxes. The second object takes the first box, with which it has most in common; the third box gets it, too.
func ExampleBipartiteMatch() {
	s := newSketch()
	similarity := s.numbers("similarity", 3, 0.8, 0.3, 0.2, 0.9, 0.7, 0.6)
	objects, similarities := layers.BipartiteMatch(similarity, 0.5)
	s.print(layers.Cast(objects, tensor.Int64), similarities)
	// Output:
	// [1 3] [1 0 1]
	// [1 3] [0.9 0.3 0.6]
}

func ExampleTargetAssign() {
	s := newSketch()
	truth, priors := s.boxes("truth", 0, 0, 4, 4), s.boxes("priors", 0, 0, 4, 2, 8, 8, 9, 9)
	objects, _ := layers.BipartiteMatch(layers.IoUSimilarity(truth, priors), 0)
	rows, weights := layers.TargetAssign(layers.Reshape(truth, []int64{0, 1, 4}), objects, 0)
	s.print(rows, weights)
	// Output:
	// [1 2 4] [0 0 4 4 0 0 0 0]
	// [1 2 1] [1 0]
}

func ExampleRoiPool() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 8, 1, 2, 3, 4, 5, 6, 7, 8), []int64{0, 1, 2, 4})
	s.print(layers.RoiPool(image, s.boxes("regions", 0, 0, 2, 1), 2, 2, 1))
	// Output: [1 1 2 2] [2 3 6 7]
}

// One point in the middle of each of two bins, which lies between four pixels.
func ExampleRoiAlign() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 6, 0, 2, 4, 10, 12, 14), []int64{0, 1, 2, 3})
	s.print(layers.RoiAlign(image, s.boxes("regions", 0, 0, 2, 1), 1, 2, 1, 1))
	// Output: [1 1 1 2] [6 8]
}
