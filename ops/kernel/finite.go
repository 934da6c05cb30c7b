package kernel

import "github.com/edl-go/edl/tensor"

// FirstNonFinite returns the index of the first NaN or infinity in x, or -1 when all elements are finite.
func FirstNonFinite[T tensor.Float](x []T) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
