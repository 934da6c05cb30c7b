package layers_test

import "github.com/edl-go/edl/layers"

// ends are the sources and the targets of three edges.
func (s *sketch) ends() (from, to layers.Variable) {
	edges := s.classes("edges", 0, 1, 2, 1, 1, 0)
	end := func(first int64) layers.Variable {
		return layers.Reshape(layers.Slice(edges, []int{0}, []int64{first}, []int64{first + 3}), []int64{3})
	}
	return end(0), end(3)
}

func ExampleEdgeMessages() {
	s := newSketch()
	from, to := s.ends()
	x := layers.Reshape(s.numbers("x", 6, 1, 2, 3, 4, 5, 6), []int64{3, 2})
	y := layers.Reshape(s.numbers("y", 2, 10, 20), []int64{2, 1})
	s.print(layers.EdgeMessages(x, y, from, to, "MUL"))
	// Output: [3 2] [20 40 60 80 50 60]
}

func ExampleSendReceiveEdges() {
	s := newSketch()
	from, to := s.ends()
	x := layers.Reshape(s.numbers("x", 6, 1, 2, 3, 4, 5, 6), []int64{3, 2})
	weights := layers.Reshape(s.numbers("weights", 3, 2, 1, -1), []int64{3, 1})
	s.print(layers.SendReceiveEdges(x, weights, from, to, "MUL", "SUM", 2))
	// Output: [2 2] [-5 -6 5 8]
}
