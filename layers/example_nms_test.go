package layers_test

import "github.com/edl-go/edl/layers"

// The second box overlaps the first too much, and class 0 is the background.
func ExampleMulticlassNMS() {
	s := newSketch()
	boxes := layers.Reshape(s.numbers("boxes", 12, 0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8), []int64{0, 3, 4})
	scores := layers.Reshape(s.numbers("scores", 6, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6), []int64{0, 2, 3})
	s.print(layers.MulticlassNMS(boxes, scores, layers.NMS{ScoreThreshold: 0.1, Threshold: 0.5}))
	// Output: [2 6] [1 0.8 0 0 4 4 1 0.6 6 6 8 8]
}

// The best box finds the one object. The other box of its class finds nothing.
func ExampleDetectionMAP() {
	s := newSketch()
	found := s.sequences("found", 6, []int64{2}, 1, 0.9, 0, 0, 0.5, 0.5, 1, 0.8, 0.5, 0.5, 1, 1)
	label := s.sequences("label", 5, []int64{2}, 1, 0, 0, 0.5, 0.6, 2, 0, 0, 1, 1)
	s.print(layers.DetectionMAP(found, label, layers.DetectionScore{Classes: 3})) // precision 1 for class 1, 0 for class 2
	// Output: [1] [0.5]
}
