package kernel

import "github.com/edl-go/edl/tensor"

// The optimizers update a parameter and its state in place, elementwise, from the gradient: all slices of a call are of
// one length. Names and formulas are those of Fluid's operators. lr is the learning rate of this step.

// SGD computes param -= lr*grad.
func SGD[T tensor.Float](param, grad []T, lr T) {
	grad = grad[:len(param)]
	for i := range param {
		param[i] -= lr * grad[i]
	}
}

// Momentum computes velocity = mu*velocity + grad and then param -= lr*velocity, or with nesterov
// param -= lr*(grad + mu*velocity).
func Momentum[T tensor.Float](param, velocity, grad []T, lr, mu T, nesterov bool) {
	velocity, grad = velocity[:len(param)], grad[:len(param)]
	if nesterov {
		for i := range param {
			v := mu*velocity[i] + grad[i]
			velocity[i] = v
			param[i] -= (grad[i] + mu*v) * lr
		}
		return
	}
	for i := range param {
		v := mu*velocity[i] + grad[i]
		velocity[i] = v
		param[i] -= lr * v
	}
}
