//go:build !purego

package simd

//go:noescape
func copyPatches(columns, image []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)

//go:noescape
func addPatches(image, columns []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)
