package bench

import "github.com/edl-go/edl/layers"

// fitALine is linear regression from 13 numbers to 1. It is so small that it measures what a step costs beside its arithmetic.
func fitALine(b *builder, _ string) layers.Variable {
	const batch, width = 20, 13
	x, y := b.numbers("x", batch, width), b.numbers("y", batch, 1)
	b.multiplies(batch*width, true)
	return layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y), layers.Name("loss"))
}
