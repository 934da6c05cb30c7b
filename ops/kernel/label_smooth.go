package kernel

import "github.com/edl-go/edl/tensor"

// LabelSmooth computes out = (1-epsilon)*x + epsilon*prior for each row of width len(prior), and with a nil prior
// out = (1-epsilon)*x + epsilon/classes (Fluid's label_smooth). out may be x.
func LabelSmooth[T tensor.Float](out, x, prior []T, classes int, epsilon T) {
	x = x[:len(out)]
	share := epsilon / T(classes)
	for i := range out {
		if prior != nil {
			share = epsilon * prior[i%classes]
		}
		out[i] = (1-epsilon)*x[i] + share
	}
}
