package kernel

import "github.com/edl-go/edl/tensor"

// AverageAccumulates adds param to the sums of Fluid's average_accumulates, in place: sum1 += param; with move, sum2 += sum1 and sum1 = 0; with end, sum3 = sum1 + sum2
// and both are 0.
func AverageAccumulates[T tensor.Float](sum1, sum2, sum3, param []T, move, end bool) {
	sum1, sum2, sum3 = sum1[:len(param)], sum2[:len(param)], sum3[:len(param)]
	for i, p := range param {
		sum1[i] += p
	}
	if move {
		for i, s := range sum1 {
			sum2[i] += s
			sum1[i] = 0
		}
	}
	if end {
		for i, s := range sum1 {
			sum3[i] = s + sum2[i]
			sum1[i], sum2[i] = 0, 0
		}
	}
}
