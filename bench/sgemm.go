package bench

import (
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
)

// sgemm is one product of float32 matrices M x K and K x N, which stay the same from step to step. Its arguments are MxKxN.
func sgemm(b *builder, arguments string) layers.Variable {
	sides, err := extents(arguments, "x", 3)
	if err != nil {
		b.err = err
		return layers.Variable{}
	}
	m, k, n := sides[0], sides[1], sides[2]
	b.feeds = make([]executor.Feed, 1)
	left, right := b.numbers("left", m, k), b.numbers("right", k, n)
	b.flops = 2 * m * k * n
	return layers.MatMul(left, right, layers.Name("product"))
}
