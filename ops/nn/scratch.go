package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// orScratch returns the output of a slot, or n elements of scratch memory when nobody wants it.
func orScratch[T tensor.Element](b *ops.Binding, slot string, n int) *tensor.Tensor {
	if t := b.Out(slot); t != nil {
		return t
	}
	return b.Scratch(tensor.Of[T](), n)
}
