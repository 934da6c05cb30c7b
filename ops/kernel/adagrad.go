package kernel

import "github.com/edl-go/edl/tensor"

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
