//go:build !purego

package simd

//go:noescape
func maxPool2x2(out, x []float32, rows, width, step int)

//go:noescape
func maxPool2x2Grad(dx, x, dout []float32, rows, width, step int)
