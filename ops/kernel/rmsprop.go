package kernel

import "github.com/edl-go/edl/tensor"

// RMSProp computes s = rho*s + (1-rho)*grad^2; v = mu*v + lr*grad/sqrt(s+epsilon); param -= v.
func RMSProp[T tensor.Float](param, meanSquare, moment, grad []T, lr, rho, epsilon, mu T) {
	meanSquare, moment, grad = meanSquare[:len(param)], moment[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		s := rho*meanSquare[i] + (1-rho)*g*g
		v := mu*moment[i] + lr*g/sqrt(s+epsilon)
		meanSquare[i], moment[i] = s, v
		param[i] -= v
	}
}

// RMSPropCentered is RMSProp with the variance in place of the mean square: c = rho*c + (1-rho)*grad and
// v = mu*v + lr*grad/sqrt(s-c^2+epsilon).
func RMSPropCentered[T tensor.Float](param, meanSquare, meanGrad, moment, grad []T, lr, rho, epsilon, mu T) {
	meanSquare, meanGrad = meanSquare[:len(param)], meanGrad[:len(param)]
	moment, grad = moment[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		s := rho*meanSquare[i] + (1-rho)*g*g
		c := rho*meanGrad[i] + (1-rho)*g
		v := mu*moment[i] + lr*g/sqrt(s-c*c+epsilon)
		meanSquare[i], meanGrad[i], moment[i] = s, c, v
		param[i] -= v
	}
}
