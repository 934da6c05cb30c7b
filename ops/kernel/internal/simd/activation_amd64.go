//go:build !purego

package simd

//go:noescape
func relu(out, x []float32)

//go:noescape
func reluGrad(dx, out, dout []float32)

//go:noescape
func sigmoidGrad(dx, out, dout []float32)

//go:noescape
func tanhGrad(dx, out, dout []float32)

//go:noescape
func squareGrad(dx, x, dout []float32)

//go:noescape
func softmaxGrad(dx, out, dout []float32, dot float32)

//go:noescape
func exp(out, x []float32, shift float32)

//go:noescape
func sigmoid(out, x []float32)

//go:noescape
func tanh(out, x []float32)
