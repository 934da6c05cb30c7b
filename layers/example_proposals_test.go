package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// The second box overlaps the first too much.
func ExampleGenerateProposals() {
	s := newSketch()
	deltas, scores := s.blank("deltas", 4, 3), layers.Reshape(s.numbers("scores", 3, 0.9, 0.8, 0.7), []int64{0, 1, 1, 3})
	anchors := layers.Reshape(s.numbers("anchors", 12, 0, 0, 9, 9, 0, 0, 9, 8, 20, 20, 29, 29), []int64{1, 3, 1, 4})
	regions, probabilities := layers.GenerateProposals(scores, layers.Reshape(deltas, []int64{0, 4, 1, 3}), s.numbers("info", 3, 40, 40, 1), anchors, layers.Scale(anchors, 0, 1),
		layers.Proposals{Threshold: 0.5})
	s.print(regions, probabilities)
	// Output:
	// [2 4] [0 0 9 9 20 20 29 29]
	// [2 1] [0.9 0.7]
}

func ExampleDistributeFPNProposals() {
	s := newSketch()
	levels, _ := layers.DistributeFPNProposals(s.boxes("regions", 0, 0, 39, 39, 0, 0, 9, 9), 3, 5, 3, 10)
	s.print(levels...)
	// Output:
	// [1 4] [0 0 9 9]
	// [0 4] []
	// [1 4] [0 0 39 39]
}

func ExampleCollectFPNProposals() {
	s := newSketch()
	small, large := s.boxes("small", 0, 0, 1, 1, 2, 2, 3, 3), s.boxes("large", 0, 0, 9, 9)
	s.print(layers.CollectFPNProposals([]layers.Variable{small, large}, []layers.Variable{s.numbers("a", 1, 0.5, 0.9), s.numbers("b", 1, 0.7)}, 2))
	// Output: [2 4] [2 2 3 3 0 0 9 9]
}

func ExampleBoxDecoderAndAssign() {
	s := newSketch()
	variances := layers.FillConstant(s.Model, 1, []int64{4})
	_, assigned := layers.BoxDecoderAndAssign(s.numbers("regions", 4, 0, 0, 9, 9), variances, s.numbers("codes", 8, 0, 0, 0, 0, 0.5, 0, 0, 0), s.numbers("scores", 2, 0.9, 0.8), 4)
	s.print(assigned)
	// Output: [1 4] [5 0 14 9]
}

func ExampleMatrixNMS() {
	s := newSketch()
	boxes := layers.Reshape(s.numbers("boxes", 12, 0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8), []int64{0, 3, 4})
	scores := layers.Reshape(s.numbers("scores", 3, 0.9, 0.8, 0.7), []int64{0, 1, 3})
	s.print(layers.MatrixNMS(boxes, scores, layers.NMS{ScoreThreshold: 0.1, Background: -1}, 0.1))
	// Output: [3 6] [0 0.9 0 0 4 4 0 0.7 6 6 8 8 0 0.2 0 0 4 3]
}

func ExampleLocalityAwareNMS() {
	s := newSketch()
	boxes := layers.Reshape(s.numbers("boxes", 12, 0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8), []int64{0, 3, 4})
	scores := layers.Reshape(s.numbers("scores", 3, 0.75, 0.25, 0.5), []int64{0, 1, 3})
	s.print(layers.LocalityAwareNMS(boxes, scores, layers.NMS{ScoreThreshold: 0.1, Threshold: 0.5, Background: -1}))
	// Output: [2 6] [0 1 0 0 4 3.75 0 0.5 6 6 8 8]
}

func ExampleRetinanetDetectionOutput() {
	s := newSketch()
	deltas, scores := layers.Reshape(s.numbers("deltas", 8, make([]float32, 8)...), []int64{0, 2, 4}), layers.Reshape(s.numbers("scores", 2, 0.9, 0.8), []int64{0, 2, 1})
	anchors := s.numbers("anchors", 4, 0, 0, 9, 9, 0, 0, 9, 8)
	one := func(v layers.Variable) []layers.Variable { return []layers.Variable{v} }
	s.print(layers.RetinanetDetectionOutput(one(deltas), one(scores), one(anchors), s.numbers("info", 3, 20, 20, 2), layers.NMS{ScoreThreshold: 0.1, Threshold: 0.5, KeepTopK: 10}))
	// Output: [1 6] [1 0.9 0 0 4.5 4.5]
}

// One place, one anchor and one object in the middle, of half the size of the image.
func ExampleYolov3Loss() {
	s := newSketch()
	boxes := layers.Reshape(s.numbers("boxes", 4, 0.5, 0.5, 0.5, 0.5), []int64{0, 1, 4})
	x := layers.Reshape(s.blank("x", 6, 1), []int64{0, 6, 1, 1})
	s.print(layers.Yolov3Loss(x, boxes, layers.Cast(s.classes("labels", 0), tensor.Int32), []int{16, 16}, []int{0}, 1, 0.7, 32))
	// Output: [1] [3.81]
}

func ExampleMineHardExamples() {
	s := newSketch()
	objects, similarities := layers.BipartiteMatch(s.numbers("similarity", 3, 0.8, 0.3, 0.2), 0)
	chosen := layers.MineHardExamples(s.numbers("losses", 3, 0.5, 0.9, 0.7), objects, similarities, 1, 0.5)
	s.print(chosen)
	// Output: [1 1] [1]
}

func ExamplePSRoiPool() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 8, 1, 2, 3, 4, 5, 6, 7, 8), []int64{0, 2, 2, 2})
	s.print(layers.PSRoiPool(image, s.boxes("regions", 0, 0, 1, 1), 1, 1, 2, 1))
	// Output: [1 1 1 2] [2 7]
}

func ExampleDeformableRoiPool() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 6, 1, 2, 3, 4, 5, 6), []int64{0, 1, 2, 3})
	moves := layers.Reshape(s.numbers("moves", 2, 2, 0.5), []int64{0, 2, 1, 1})
	s.print(layers.DeformableRoiPool(image, s.boxes("regions", 0, 0, 1, 1), moves, layers.Deformation{Points: 2, Strength: 0.25}))
	// Output: [1 1 1 1] [3.12]
}

func ExampleRoiPerspectiveTransform() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{0, 1, 3, 3})
	corners := layers.LoDResetTo(s.numbers("corners", 8, 2, 0, 2, 2, 0, 2, 0, 0), []int{0, 1}) // a square on its right side
	out, mask, _ := layers.RoiPerspectiveTransform(image, corners, 3, 3, 1)
	s.print(out, mask)
	// Output:
	// [1 1 3 3] [3 6 9 2 5 8 1 4 7]
	// [1 1 3 3] [1 1 1 1 1 1 1 1 1]
}

func ExamplePRRoiPool() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 6, 0, 2, 4, 10, 12, 14), []int64{0, 1, 2, 3})
	s.print(layers.PRRoiPool(image, s.boxes("regions", 0, 0, 2, 1), 1, 2, 1))
	// Output: [1 1 1 2] [6 8]
}

// The window reads the pixel to the right of its place, and between two pixels.
func ExampleDeformableConv() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 3, 1, 2, 4), []int64{0, 1, 1, 3})
	offset, mask := layers.Reshape(s.numbers("offset", 6, 0, 0, 0, 1, 0.5, 0.5), []int64{0, 2, 1, 3}), layers.Reshape(s.numbers("mask", 3, 1, 1, 0.5), []int64{0, 1, 1, 3})
	s.print(layers.DeformableConv(image, offset, mask, 1, 1, layers.NoBias(), layers.Param(layers.ParamAttr{Initializer: layers.Constant(10)})))
	// Output: [1 1 1 3] [20 30 10]
}
