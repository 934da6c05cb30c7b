package layers_test

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func ExampleCTCGreedyDecoder() {
	s := newSketch()
	scores := layers.LoDReset(layers.OneHot(s.classes("frames", 1, 1, 0, 1, 2, 0), 3), s.labels("of", []int64{4, 2}, 0, 0, 0, 0, 0, 0))
	s.print(layers.CTCGreedyDecoder(scores, 0))
	// Output: [3 1] [1 1 2]
}

func ExampleCTCGreedyDecoderPadded() {
	s := newSketch()
	scores := layers.Reshape(layers.OneHot(s.classes("frames", 1, 1, 0, 1, 2, 0), 3), []int64{-1, 3, 3})
	labels, counts := layers.CTCGreedyDecoderPadded(scores, s.classes("lengths", 3, 2), 0, -1)
	s.print(labels, counts)
	// Output:
	// [2 3] [1 -1 -1 1 2 -1]
	// [2 1] [1 2]
}

// Two frames and the classes a and blank, all equally likely: three of four ways read as a.
func ExampleWarpCTC() {
	s := newSketch()
	logits := s.sequences("logits", 2, []int64{2}, 0, 0, 0, 0)
	label := layers.Cast(s.labels("label", []int64{1}, 0), tensor.Int32)
	s.print(layers.WarpCTC(logits, label, 1))
	// Output: [1 1] [0.288]
}

func ExampleNormByTimes() {
	s := newSketch()
	logits := s.sequences("logits", 2, []int64{2}, 0, 0, 0, 0)
	label := layers.Cast(s.labels("label", []int64{1}, 0), tensor.Int32)
	s.print(layers.WarpCTC(logits, label, 1, layers.NormByTimes())) // the loss is the same
	// Output: [1 1] [0.288]
}

func ExampleWarpCTCPadded() {
	s := newSketch()
	logits := layers.Transpose(layers.Reshape(s.numbers("logits", 4, 0, 0, 0, 0), []int64{-1, 2, 2}), []int{1, 0, 2})
	label := layers.Cast(s.classes("label", 0), tensor.Int32)
	frames := layers.Squeeze(s.classes("frames", 2), layers.Axes(1))
	s.print(layers.WarpCTCPadded(logits, label, frames, layers.FillLike(frames, 1), 1))
	// Output: [1 1] [0.288]
}
