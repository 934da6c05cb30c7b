//go:build !purego

package simd

//go:noescape
func momentum(param, velocity, grad []float32, lr, mu float32)

//go:noescape
func nesterov(param, velocity, grad []float32, lr, mu float32)

//go:noescape
func adagrad(param, moment, grad []float32, lr, epsilon float32)

//go:noescape
func adam(param, moment1, moment2, grad []float32, rate, beta1, rest1, beta2, rest2, epsilon float32)
