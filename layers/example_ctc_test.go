package layers_test

import "github.com/edl-go/edl/layers"

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
