package bind

import "github.com/edl-go/edl/tensor"

// Count returns the product of extents, which a tensor of these dims has shown to fit.
func Count(dims []int64) int {
	n, _ := tensor.Count(dims)
	return n
}

// Matrix sees dims as a matrix: rows is the product of the first axes, cols that of the others.
func Matrix(dims []int64, axes int) (rows, cols int) { return Count(dims[:axes]), Count(dims[axes:]) }

// Ints converts extents for the plans of package kernel.
func Ints(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

// Data is tensor.Data that gives nil for a tensor that nobody wants.
func Data[T tensor.Element](t *tensor.Tensor) []T {
	if t == nil {
		return nil
	}
	return tensor.Data[T](t)
}
