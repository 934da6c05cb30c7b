package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// FTRL is follow-the-regularised-leader (McMahan et al. 2013, "Ad click prediction: a view from the trenches"). squared is
// the sum of squared gradients, linear the linear term; l1, l2 and lrPower (usually -0.5) are Fluid's attributes:
//
//	n = squared + grad^2
//	linear += grad - (n^-lrPower - squared^-lrPower)/lr*param
//	param = 0 where |linear| <= l1, else (sign(linear)*l1 - linear)/(n^-lrPower/lr + 2*l2)
//	squared = n
//
// A rate of 0 changes nothing: that is the limit of rates towards 0, in which linear grows beyond all bounds while param stays where it is. Fluid
// divides by it, and gets NaN.
func FTRL[T tensor.Float](param, squared, linear, grad []T, lr, l1, l2, lrPower T) {
	if lr == 0 {
		return
	}
	squared, linear, grad = squared[:len(param)], linear[:len(param)], grad[:len(param)]
	for i := range param {
		g, old := grad[i], squared[i]
		n := old + g*g
		powN, powOld := ftrlPower(n, lrPower), ftrlPower(old, lrPower)
		z := linear[i] + g - (powN-powOld)/lr*param[i]
		squared[i], linear[i] = n, z
		param[i] = 0
		if abs(z) > l1 {
			param[i] = (sign(z)*l1 - z) / (powN/lr + 2*l2)
		}
	}
}

// ftrlPower computes n**-lrPower, exactly rounded for the usual square root.
func ftrlPower[T tensor.Float](n, lrPower T) T {
	if lrPower == -0.5 {
		return sqrt(n)
	}
	return T(math.Pow(float64(n), -float64(lrPower)))
}
