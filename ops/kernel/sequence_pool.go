package kernel

import "github.com/edl-go/edl/tensor"

// The functions of this file make one row of a sequence: out has width elements and x has as many for each of the rows of
// the sequence, of which there is at least one.

// SequenceSum computes out = scale times the sum of the rows, added in their order.
func SequenceSum[T tensor.Float](out, x []T, width int, scale T) {
	copy(out, x[:width])
	for x = x[width:]; len(x) > 0; x = x[width:] {
		addVectors(out, out, x[:width])
	}
	if scale != 1 {
		mulScalar(out, out, scale)
	}
}

// SequenceSumGrad computes dx = scale*dout in every row.
func SequenceSumGrad[T tensor.Float](dx, dout []T, width int, scale T) {
	mulScalar(dx[:width], dout, scale)
	for row := dx[width:]; len(row) > 0; row = row[width:] {
		copy(row[:width], dx[:width])
	}
}

// SequenceMax computes out = the largest element of each column, and in which row it stands, where the first row is
// number first; of equal ones it is the first. A NaN is larger than every number.
func SequenceMax[T tensor.Float](out []T, index []int32, x []T, width int, first int32) {
	out, index = out[:width], index[:width]
	copy(out, x[:width])
	for j := range index {
		index[j] = first
	}
	row := first
	for x = x[width:]; len(x) > 0; x = x[width:] {
		row++
		for j, v := range x[:width] {
			if best := out[j]; !(v <= best) && best == best {
				out[j], index[j] = v, row
			}
		}
	}
}

// SequenceMaxGrad computes dx = dout in the rows that index names, where the first row of dx is number first, and 0
// elsewhere.
func SequenceMaxGrad[T tensor.Float](dx, dout []T, index []int32, width int, first int32) {
	clear(dx)
	for j, row := range index[:width] {
		dx[int(row-first)*width+j] = dout[j]
	}
}
