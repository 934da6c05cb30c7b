package kernel

import "github.com/edl-go/edl/tensor"

// ProximalGD computes p = param - lr*grad; param = sign(p)*max(|p| - lr*l1, 0)/(1 + lr*l2).
func ProximalGD[T tensor.Float](param, grad []T, lr, l1, l2 T) {
	grad = grad[:len(param)]
	for i := range param {
		param[i] = shrink(param[i]-T(lr*grad[i]), lr, l1, l2)
	}
}

// ProximalAdagrad computes moment += grad^2 and then as ProximalGD with the step lr*grad/sqrt(moment). A gradient of 0 makes no step.
func ProximalAdagrad[T tensor.Float](param, moment, grad []T, lr, l1, l2 T) {
	moment, grad = moment[:len(param)], grad[:len(param)]
	for i := range param {
		g, p := grad[i], param[i]
		m := moment[i] + T(g*g)
		moment[i] = m
		if g != 0 {
			p -= lr * g / sqrt(m)
		}
		param[i] = shrink(p, lr, l1, l2)
	}
}

func shrink[T tensor.Float](p, lr, l1, l2 T) T {
	return sign(p) * max(abs(p)-T(lr*l1), 0) / (1 + T(lr*l2))
}
