package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// scene is an image of 40 x 40 pixels with an object of class 2 at its corner.
func (s *sketch) scene() layers.Objects {
	return layers.Objects{Boxes: s.boxes("objects", 0, 0, 9, 9), Classes: layers.Cast(s.labels("classes", []int64{1}, 2), tensor.Int32),
		Crowd: layers.Cast(s.labels("crowd", []int64{1}, 0), tensor.Int32), Images: s.numbers("images", 3, 40, 40, 1)}
}

func (s *sketch) anchors() layers.Anchors {
	boxes := layers.Reshape(s.numbers("anchors", 12, 0, 0, 9, 8, 20, 20, 29, 29, 30, 30, 50, 50), []int64{3, 4})
	return layers.Anchors{Boxes: boxes, Codes: s.numbers("codes", 12, make([]float32, 12)...), Scores: s.numbers("scores", 3, 0.9, 0.1, 0.5)}
}

// The first anchor is on the object, the second on background, and the last lies outside of the image.
func ExampleRPNTargetAssign() {
	s := newSketch()
	t := layers.RPNTargetAssign(s.anchors(), s.scene(), layers.RPNTargets{Size: 4, Share: 0.5, Positive: 0.7, Negative: 0.3})
	s.print(t.Scores, t.Labels, t.TargetCodes)
	// Output:
	// [2 1] [0.9 0.1]
	// [2 1] [1 0]
	// [1 4] [0 0.0556 0 0.105]
}

func ExampleRetinanetTargetAssign() {
	s := newSketch()
	t := layers.RetinanetTargetAssign(s.anchors(), s.scene(), 1, 0.5, 0.4)
	s.print(t.Labels, t.Found)
	// Output:
	// [3 1] [2 0 0]
	// [1 1] [2]
}

// The box of the object is a region, too.
func ExampleGenerateProposalLabels() {
	s := newSketch()
	t := layers.GenerateProposalLabels(s.boxes("regions", 20, 20, 29, 29), s.scene(), layers.ProposalLabels{Size: 4, Share: 0.5, Object: 0.5, High: 0.5, Classes: 3})
	s.print(t.Regions, t.Labels)
	// Output:
	// [2 4] [0 0 9 9 20 20 29 29]
	// [2 1] [2 0]
}

// One of three boxes is on the object. Of the others the one counts whose class is most wrong: -log(1/2) twice, and no distance.
func ExampleSSDLoss() {
	s := newSketch()
	priors := layers.Reshape(s.numbers("priors", 12, 0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0, 1, 0.5), []int64{3, 4})
	variances := layers.Reshape(s.numbers("variances", 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), []int64{3, 4})
	codes := layers.Reshape(s.numbers("codes", 12, make([]float32, 12)...), []int64{-1, 3, 4})
	scores := layers.Reshape(s.numbers("scores", 6, 0, 0, 0, 0, 9, 0), []int64{-1, 3, 2})
	of := layers.DefaultSSD
	of.Ratio = 1
	s.print(layers.SSDLoss(codes, scores, s.boxes("objects", 0, 0, 0.5, 0.5), layers.Cast(s.labels("classes", []int64{1}, 1), tensor.Int32), priors, variances, of))
	// Output: [1 1] [1.39]
}

// The object covers the left half of the region.
func ExampleGenerateMaskLabels() {
	s := newSketch()
	objects := s.scene()
	s.feed["outlines"], _ = tensor.FromSlice([]float32{0, 0, 2, 0, 2, 4, 0, 4}, 4, 2)
	s.feed["outlines"].SetLoD([][]int64{{0, 1}, {0, 1}, {0, 4}})
	outlines := layers.Data(s.Model, "outlines", layers.Dims(2), layers.LoD(3))
	_, _, masks := layers.GenerateMaskLabels(s.boxes("regions", 0, 0, 4, 4), layers.Cast(s.labels("labels", []int64{1}, 2), tensor.Int32), outlines, objects, 3, 2)
	s.print(masks)
	// Output: [1 12] [-1 -1 -1 -1 -1 -1 -1 -1 1 0 1 0]
}
