package layers_test

import "github.com/edl-go/edl/layers"

// Without preferences among tags, the cost of the labels 0, 1 is twice the logarithm of two tags. Scores of x make label 0 sure.
func ExampleLinearChainCRF() {
	s := newSketch()
	x := s.sequences("x", 2, []int64{2, 1}, 0, 0, 0, 0, 100, 0)
	label := s.labels("label", []int64{2, 1}, 0, 1, 0)
	s.print(layers.LinearChainCRF(x, label, all(0)))
	// Output: [2 1] [1.39 0]
}

func ExampleCRFDecoding() {
	s := newSketch()
	s.print(layers.CRFDecoding(s.sequences("x", 2, []int64{2, 1}, 1, 2, 4, 3, 0, 5), all(0)))
	// Output: [3 1] [1 0 1]
}

// In IOB, tag 0 begins a chunk of the first type, 1 continues it, and 2 is outside. One of two chunks was found, with its end, and one too many.
func ExampleChunkEval() {
	s := newSketch()
	found := s.labels("found", []int64{6}, 0, 1, 2, 0, 2, 2)
	truth := s.labels("truth", []int64{6}, 0, 1, 2, 2, 0, 2)
	s.print(layers.ChunkEval(found, truth, "IOB", 1))
	// Output:
	// [1] [0.5]
	// [1] [0.5]
	// [1] [0.5]
}

// It pays to stay with a tag.
func ExampleViterbiDecode() {
	s := newSketch()
	x := layers.Reshape(s.numbers("x", 6, 1, 0, 0, 0.5, 1, 0), []int64{0, 3, 2})
	stay := layers.Reshape(s.numbers("stay", 4, 2, 0, 0, 2), []int64{2, 2})
	scores, path := layers.ViterbiDecode(x, stay, layers.Reshape(s.classes("lengths", 3), []int64{-1}), false)
	s.print(scores, path)
	// Output:
	// [1] [6]
	// [1 3] [0 0 0]
}
