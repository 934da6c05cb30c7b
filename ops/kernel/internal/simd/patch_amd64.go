//go:build !purego

package simd

//go:noescape
func copyPatches(columns, image []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)

//go:noescape
func addWindows(image, columns []float32, channels, plane, perChannel, rows, width, step int)

//go:noescape
func copyPatchRows(patches, image []float32, channels, plane, kernelHeight, kernelWidth, rowStep, rows, width, step, stride int)
