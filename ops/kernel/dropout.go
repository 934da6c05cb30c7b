package kernel

import "github.com/edl-go/edl/tensor"

// DropoutDowngrade computes out = x*mask, the training half of Fluid's dropout_implementation "downgrade_in_infer"; at
// inference out = x*(1-probability), which is Scale. Its gradient is DropoutDowngrade of dout. The slices are of one
// length; out may be x. mask holds 0 and 1, see DropoutMask.
func DropoutDowngrade[T tensor.Float](out, x, mask []T) { mulVectors(out, x, mask) }

// DropoutUpscale computes out = x*mask/(1-probability), the training half of "upscale_in_train"; inference is the
// identity. Its gradient is DropoutUpscale of dout. With probability 1 everything is 0. Slices are as for
// DropoutDowngrade.
func DropoutUpscale[T tensor.Float](out, x, mask []T, probability float64) {
	if probability >= 1 {
		clear(out)
		return
	}
	keep := T(1 - probability)
	x, mask = x[:len(out)], mask[:len(out)]
	for i := range out {
		out[i] = x[i] * mask[i] / keep
	}
}
