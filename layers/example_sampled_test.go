package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// All scores are 0, so each of the two nodes on the paths to four classes costs log(2).
func ExampleHSigmoid() {
	s := newSketch()
	x, label := s.numbers("x", 2, 1, 2, 3, 4), s.classes("label", 0, 3)
	s.print(layers.HSigmoid(x, label, 4, all(0)))
	// Output: [2 1] [1.39 1.39]
}

// The tree has class 0 below its root, on the right, and the others below node 1.
func ExampleTreePaths() {
	s := newSketch()
	x, label := s.numbers("x", 1, 1, 1), s.classes("label", 0, 2)
	table := layers.Cast(s.numbers("table", 2, 0, -1, 0, 1), tensor.Int64)
	code := layers.Cast(s.numbers("code", 2, 1, 0, 0, 1), tensor.Int64)
	s.print(layers.HSigmoid(x, label, 3, all(1), layers.NoBias(), layers.TreePaths(table, code)))
	// Output: [2 1] [1.01 1.63]
}

// All scores are 0. With two samples of two classes, the label costs log(3), and each sample too.
func ExampleNCE() {
	s := newSketch()
	x, label := s.numbers("x", 1, 1, 2), s.classes("label", 0, 1)
	s.print(layers.NCE(x, label, 2, all(0), layers.Samples(2)))
	// Output: [2 1] [1.91 1.91]
}

func ExampleSamples() {
	s := newSketch()
	s.print(layers.NCE(s.numbers("x", 1, 1), s.classes("label", 0), 2, all(0), layers.Samples(4)))
	// Output: [1 1] [2.5]
}

// Of two classes, the sampler of Fluid draws only the first.
func ExampleLogUniform() {
	s := newSketch()
	s.print(layers.NCE(s.numbers("x", 1, 1), s.classes("label", 0), 2, all(0), layers.Samples(1), layers.LogUniform()))
	// Output: [1 1] [1.5]
}

func ExampleSampleWeights() {
	s := newSketch()
	x, weights := s.numbers("x", 1, 1, 2), s.numbers("weights", 1, 2, 0)
	s.print(layers.NCE(x, s.classes("label", 0, 1), 2, all(0), layers.Samples(2), layers.SampleWeights(weights)))
	// Output: [2 1] [3.82 0]
}

// All classes are drawn, and the label once more, which counts nothing.
func ExampleSampledSoftmaxWithCrossEntropy() {
	s := newSketch()
	logits := s.numbers("logits", 3, 100, 0, 0, 0, 0, 100)
	s.print(layers.SampledSoftmaxWithCrossEntropy(logits, s.classes("label", 0, 1), 3))
	// Output: [2 1] [0 100]
}

// The label is drawn, too, and as likely as itself.
func ExampleKeepAccidentalHits() {
	s := newSketch()
	logits := s.numbers("logits", 3, 100, 0, 0)
	s.print(layers.SampledSoftmaxWithCrossEntropy(logits, s.classes("label", 0), 3, layers.KeepAccidentalHits()))
	// Output: [1 1] [0.693]
}

func ExampleSamplingID() {
	s := newSketch()
	s.print(layers.SamplingID(s.numbers("p", 3, 0, 1, 0, 0, 0, 1)))
	// Output: [2] [1 2]
}

func ExampleCenterLoss() {
	s := newSketch()
	s.print(layers.CenterLoss(s.numbers("x", 2, 1, 2, 3, 1), s.classes("label", 0, 1), 2, 0.5, all(1)))
	// Output: [2 1] [0.5 2]
}

// Half of the rows of class 0 are found, and all rows of class 1, with one too many.
func ExamplePrecisionRecall() {
	s := newSketch()
	found, label := layers.Cast(s.classes("found", 0, 1, 1), tensor.Int32), layers.Cast(s.classes("label", 0, 0, 1), tensor.Int32)
	s.print(layers.PrecisionRecall(found, label, 2))
	// Output: [6] [0.75 0.75 0.75 0.667 0.667 0.667]
}

// Of the three items of query 4, only the last two are in the wrong order.
func ExamplePositiveNegativePair() {
	s := newSketch()
	score, label := s.numbers("score", 1, 0.9, 0.2, 0.3, 0.5), s.numbers("label", 1, 3, 2, 1, 7)
	positive, negative, neutral := layers.PositiveNegativePair(score, label, s.classes("query", 4, 4, 4, 5))
	s.print(positive, negative, neutral)
	// Output:
	// [1] [2]
	// [1] [1]
	// [1] [0]
}
