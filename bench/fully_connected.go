package bench

import (
	"cmp"
	"strings"

	"github.com/edl-go/edl/layers"
)

// mlp is the network of handwritten digits with two hidden layers.
func mlp(b *builder, _ string) layers.Variable { return fullyConnected(b, "64:784-200-200-10") }

// fullyConnected is a classifier of fully connected layers with relu between them. Its arguments are BATCH:WIDTH-WIDTH-..., from the width of
// the input to the number of classes. Weights start as He et al. (2015) draw them, so that a network of any depth stays in the range of
// normal numbers.
func fullyConnected(b *builder, arguments string) layers.Variable {
	rows, sizes, _ := strings.Cut(arguments, ":")
	batch, err := extents(rows, "-", 1)
	widths, err2 := extents(sizes, "-", 2)
	if b.err = cmp.Or(err, err2); b.err != nil {
		return layers.Variable{}
	}
	last := len(widths) - 1
	h := b.numbers("image", batch[0], widths[0])
	for i, width := range widths[1:] {
		options := []layers.Option{layers.Param(layers.ParamAttr{Initializer: layers.MSRANormal()})}
		if i+1 < last {
			options = append(options, layers.Act("relu"))
		}
		h = layers.FC(h, width, options...)
		b.multiplies(batch[0]*widths[i]*width, i == 0)
	}
	return b.classify(h, batch[0], widths[last])
}
