package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The optimizers update a parameter and its state in place, elementwise, from the gradient: all slices of a call are of
// one length. Names and formulas are those of Fluid's operators. lr is the learning rate of this step.

// SGD computes param -= lr*grad.
func SGD[T tensor.Float](param, grad []T, lr T) {
	Axpy(param, grad, -lr)
}

// Momentum computes velocity = mu*velocity + grad and then param -= lr*velocity, or with nesterov
// param -= lr*(grad + mu*velocity).
func Momentum[T tensor.Float](param, velocity, grad []T, lr, mu T, nesterov bool) {
	velocity, grad = velocity[:len(param)], grad[:len(param)]
	if v := vectorsFor[T](len(param)); v != nil {
		update := v.Momentum
		if nesterov {
			update = v.Nesterov
		}
		update(singles(param), singles(velocity), singles(grad), float32(lr), float32(mu))
		return
	}
	if nesterov {
		for i := range param {
			v := T(mu*velocity[i]) + grad[i]
			velocity[i] = v
			param[i] -= T((grad[i] + T(mu*v)) * lr)
		}
		return
	}
	for i := range param {
		v := T(mu*velocity[i]) + grad[i]
		velocity[i] = v
		param[i] -= T(lr * v)
	}
}

// Adagrad computes moment += grad^2; param -= lr*grad/(sqrt(moment)+epsilon).
func Adagrad[T tensor.Float](param, moment, grad []T, lr, epsilon T) {
	moment, grad = moment[:len(param)], grad[:len(param)]
	if v := vectorsFor[T](len(param)); v != nil {
		v.Adagrad(singles(param), singles(moment), singles(grad), float32(lr), float32(epsilon))
		return
	}
	for i := range param {
		g := grad[i]
		m := moment[i] + T(g*g)
		moment[i] = m
		param[i] -= lr * g / (sqrt(m) + epsilon)
	}
}

// DecayedAdagrad computes moment = decay*moment + (1-decay)*grad^2; param -= lr*grad/(sqrt(moment)+epsilon).
func DecayedAdagrad[T tensor.Float](param, moment, grad []T, lr, decay, epsilon T) {
	moment, grad = moment[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		m := decay*moment[i] + (1-decay)*g*g
		moment[i] = m
		param[i] -= lr * g / (sqrt(m) + epsilon)
	}
}

// Adadelta keeps decaying means of squared gradients and squared updates: s = rho*s + (1-rho)*grad^2;
// d = -sqrt((u+epsilon)/(s+epsilon))*grad; u = rho*u + (1-rho)*d^2; param += d. There is no learning rate.
func Adadelta[T tensor.Float](param, squaredGrad, squaredUpdate, grad []T, rho, epsilon T) {
	squaredGrad, squaredUpdate, grad = squaredGrad[:len(param)], squaredUpdate[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		s := rho*squaredGrad[i] + (1-rho)*g*g
		d := -sqrt((squaredUpdate[i]+epsilon)/(s+epsilon)) * g
		squaredGrad[i] = s
		squaredUpdate[i] = rho*squaredUpdate[i] + (1-rho)*d*d
		param[i] += d
	}
}

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

// Adam computes m1 = beta1*m1 + (1-beta1)*grad; m2 = beta2*m2 + (1-beta2)*grad^2; and with
// rate = lr*sqrt(1-beta2Pow)/(1-beta1Pow), param -= rate*m1/(sqrt(m2)+epsilon). beta1Pow and beta2Pow are beta1 and
// beta2 to the number of this step, counted from 1; the caller multiplies them afterwards.
func Adam[T tensor.Float](param, moment1, moment2, grad []T, lr, beta1, beta2, beta1Pow, beta2Pow, epsilon T) {
	rate := lr * sqrt(1-beta2Pow) / (1 - beta1Pow)
	rest1, rest2 := 1-beta1, 1-beta2
	moment1, moment2, grad = moment1[:len(param)], moment2[:len(param)], grad[:len(param)]
	if v := vectorsFor[T](len(param)); v != nil {
		v.Adam(singles(param), singles(moment1), singles(moment2), singles(grad),
			float32(rate), float32(beta1), float32(rest1), float32(beta2), float32(rest2), float32(epsilon))
		return
	}
	for i := range param {
		g := grad[i]
		m1 := T(beta1*moment1[i]) + T(rest1*g)
		m2 := T(beta2*moment2[i]) + T(rest2*g*g)
		moment1[i], moment2[i] = m1, m2
		param[i] -= T(rate * (m1 / (sqrt(m2) + epsilon)))
	}
}

// Adamax computes m = beta1*m + (1-beta1)*grad; u = max(|grad|, beta2*u + epsilon);
// param -= lr/(1-beta1Pow)*m/u. beta1Pow is as for Adam.
func Adamax[T tensor.Float](param, moment, infinityNorm, grad []T, lr, beta1, beta2, beta1Pow, epsilon T) {
	rate := lr / (1 - beta1Pow)
	moment, infinityNorm, grad = moment[:len(param)], infinityNorm[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		m := beta1*moment[i] + (1-beta1)*g
		u := max(abs(g), beta2*infinityNorm[i]+epsilon)
		moment[i], infinityNorm[i] = m, u
		param[i] -= rate * (m / u)
	}
}

// FTRL is follow-the-regularised-leader (McMahan et al. 2013, "Ad click prediction: a view from the trenches"). squared is
// the sum of squared gradients, linear the linear term; l1, l2 and lrPower (usually -0.5) are Fluid's attributes:
//
//	n = squared + grad^2
//	linear += grad - (n^-lrPower - squared^-lrPower)/lr*param
//	param = 0 where |linear| <= l1, else (sign(linear)*l1 - linear)/(n^-lrPower/lr + 2*l2)
//	squared = n
//
// A rate of 0 changes nothing. This is the limit of small rates: linear grows without bound and param does not change. Fluid divides by the
// rate and gets NaN.
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
