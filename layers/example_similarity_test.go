package layers_test

import "github.com/edl-go/edl/layers"

func ExampleCosSim() {
	s := newSketch()
	s.print(layers.CosSim(s.numbers("x", 2, 3, 4, 1, 0), s.numbers("y", 2, 4, 3, 0, 2)))
	// Output: [2 1] [0.96 0]
}

func ExampleCrossEntropy2() {
	s := newSketch()
	s.print(layers.CrossEntropy2(s.numbers("p", 2, 0.25, 0.75, 0.5, 0.5), s.classes("label", 0, 1)))
	// Output: [2 1] [1.39 0.693]
}
