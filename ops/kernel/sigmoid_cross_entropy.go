package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// SigmoidCrossEntropy computes out = max(x, 0) - x*label + log(1 + exp(-|x|)), elementwise (Fluid's sigmoid_cross_entropy_with_logits):
// the cross entropy of sigmoid(x) without its loss of precision. Elements whose label is ignored become zero. The slices are of one
// length; out may be x.
func SigmoidCrossEntropy[T tensor.Float](out, x, label []T, ignored T) {
	x, label = x[:len(out)], label[:len(out)]
	for i := range out {
		if label[i] == ignored {
			out[i] = 0
			continue
		}
		v := float64(x[i])
		out[i] = T(max(v, 0) - v*float64(label[i]) + math.Log1p(math.Exp(-math.Abs(v))))
	}
}

// SigmoidCrossEntropyGrad computes dx = dout*(sigmoid(x) - label), and zero where the label is ignored. The slices are of one
// length; dx may be dout.
func SigmoidCrossEntropyGrad[T tensor.Float](dx, x, label, dout []T, ignored T) {
	x, label, dout = x[:len(dx)], label[:len(dx)], dout[:len(dx)]
	for i := range dx {
		if label[i] == ignored {
			dx[i] = 0
			continue
		}
		dx[i] = T(float64(dout[i]) * (1/(1+math.Exp(-float64(x[i]))) - float64(label[i])))
	}
}
