package kernel

import "github.com/edl-go/edl/tensor"

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
