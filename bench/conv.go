package bench

import "github.com/edl-go/edl/layers"

// conv is the convolutional network of handwritten digits: twice a convolution with relu and a maximum pool, then one
// fully connected layer.
func conv(b *builder, _ string) layers.Variable {
	const batch, filter, classes = 64, 5, 10
	h := b.numbers("image", batch, 1, 28, 28)
	for i, filters := range []int64{20, 50} {
		channels := h.Dims()[1]
		h = layers.Conv2D(h, filters, filter, layers.Act("relu"))
		b.multiplies(batch*elements(h.Dims()[1:])*channels*filter*filter, i == 0)
		h = layers.Pool2D(h, 2, layers.Stride(2, 2))
	}
	b.multiplies(batch*elements(h.Dims()[1:])*classes, false)
	return b.classify(layers.FC(h, classes), batch, classes)
}
