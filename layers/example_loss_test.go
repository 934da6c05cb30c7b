package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleHuberLoss() {
	s := newSketch()
	s.print(layers.HuberLoss(s.numbers("x", 1, 1, 1), s.numbers("y", 1, 1.5, 4), 1))
	// Output: [2 1] [0.125 2.5]
}

func ExampleModifiedHuberLoss() {
	s := newSketch()
	s.print(layers.ModifiedHuberLoss(s.numbers("x", 1, 0.5, -3), s.numbers("y", 1, 1, 1)))
	// Output: [2 1] [0.25 12]
}

func ExampleHingeLoss() {
	s := newSketch()
	s.print(layers.HingeLoss(s.numbers("x", 1, 0.5, 0.5), s.numbers("y", 1, 1, 0)))
	// Output: [2 1] [0.5 1.5]
}

func ExampleRankLoss() {
	s := newSketch()
	s.print(layers.RankLoss(s.numbers("label", 1, 1, 0.5), s.numbers("left", 1, 2, 3), s.numbers("right", 1, 1, 3)))
	// Output: [2 1] [0.313 0.693]
}

func ExampleMarginRankLoss() {
	s := newSketch()
	s.print(layers.MarginRankLoss(s.numbers("label", 1, 1, -1), s.numbers("left", 1, 2, 2), s.numbers("right", 1, 1, 1), 0.5))
	// Output: [2 1] [0 1.5]
}

func ExampleTeacherStudentSigmoidLoss() {
	s := newSketch()
	s.print(layers.TeacherStudentSigmoidLoss(s.numbers("x", 1, 1, 1, 1), s.numbers("label", 1, -2, -1, 0.25)))
	// Output: [3 1] [1.31 0.313 2.38]
}

func ExampleBCELoss() {
	s := newSketch()
	s.print(layers.BCELoss(s.numbers("p", 1, 0.5, 0.25), s.numbers("y", 1, 1, 0)))
	// Output: [2 1] [0.693 0.288]
}

func ExampleSmoothL1() {
	s := newSketch()
	s.print(layers.SmoothL1(s.numbers("x", 2, 1, 1, 4, 0), s.numbers("y", 2, 0.5, 1, 1, 0), 1))
	// Output: [2 1] [0.125 2.5]
}

func ExampleElementWeights() {
	s := newSketch()
	weight := s.numbers("weight", 2, 1, 0)
	s.print(layers.SmoothL1(s.numbers("x", 2, 4, 9), s.numbers("y", 2, 1, 1), 1, layers.ElementWeights(weight, weight)))
	// Output: [1 1] [2.5]
}

// Scores that are equal cost log(2). The second row prefers the right item to both others.
func ExampleBPRLoss() {
	s := newSketch()
	s.print(layers.BPRLoss(s.numbers("x", 3, 0, 0, 0, 0, 9, 0), s.classes("label", 2, 1)))
	// Output: [2 1] [0.693 0.000123]
}

func ExampleKLDivLoss() {
	s := newSketch()
	p, target := s.numbers("p", 2, 0.5, 0.5, 0.25, 0.75), s.numbers("target", 2, 1, 0, 0.25, 0.75)
	s.print(layers.KLDivLoss(layers.Log(p), target, "batchmean"))
	// Output: [1] [0.347]
}

// The first row is background, and nothing is known of the second one.
func ExampleSigmoidFocalLoss() {
	s := newSketch()
	label := layers.Cast(s.classes("label", 0, -1), tensor.Int32)
	foreground := layers.FillConstant(s.Model, 1, []int64{1}, layers.DType(tensor.Int32))
	s.print(layers.SigmoidFocalLoss(s.numbers("x", 2, 0, 1, 5, 5), label, foreground, 2, 0.25))
	// Output: [2 2] [0.13 0.526 0 0]
}

func ExampleEditDistance() {
	s := newSketch()
	found := s.labels("found", []int64{3, 1}, 7, 8, 9, 4)
	s.print(layers.EditDistance(found, s.labels("truth", []int64{2, 2}, 7, 9, 4, 5), true))
	// Output:
	// [2 1] [0.5 0.5]
	// [1] [2]
}

// Class 0 has one pixel in common of two, and class 1 one of two.
func ExampleMeanIOU() {
	s := newSketch()
	mean, _, correct := layers.MeanIOU(s.classes("found", 0, 1, 1), s.classes("label", 0, 0, 1), 2)
	s.print(mean, layers.Cast(correct, tensor.Int64))
	// Output:
	// [1] [0.5]
	// [2] [1 1]
}

func ExampleWeightRows() {
	s := newSketch()
	s.print(layers.WeightRows(s.numbers("cost", 1, 2, 3), s.numbers("weight", 1, 0.5, 2)))
	// Output: [2 1] [1 6]
}

func ExampleClassWeights() {
	s := newSketch()
	label := layers.Cast(s.numbers("label", 1, 0, 2, 2), tensor.Int64)
	s.print(layers.ClassWeights(label, []float64{1, 5, 0.25}))
	// Output: [3 1] [1 0.25 0.25]
}
