package kernel

import "github.com/edl-go/edl/tensor"

// The functions of this file convolve the rows of one sequence, d elements each, with a filter of the rows ahead: out[t] = sum over w of x[t+w]*filter[w], element
// by element. Rows beyond the end are zeros. Sums are added in the order of w.

// RowConv computes out.
func RowConv[T tensor.Float](out, x, filter []T, d int) {
	clear(out)
	for at := 0; at < len(out); at += d {
		for w := 0; w < len(filter) && at+w < len(x); w += d {
			mulAdd(out[at:at+d], x[at+w:at+w+d], filter[w:w+d])
		}
	}
}

// RowConvGrad computes dx[t] = sum over w of dout[t-w]*filter[w].
func RowConvGrad[T tensor.Float](dx, dout, filter []T, d int) {
	clear(dx)
	for at := 0; at < len(dx); at += d {
		for w := 0; w < len(filter) && w <= at; w += d {
			mulAdd(dx[at:at+d], dout[at-w:at-w+d], filter[w:w+d])
		}
	}
}

// RowConvFilterGrad adds to dfilter[w] the sum over t of dout[t]*x[t+w].
func RowConvFilterGrad[T tensor.Float](dfilter, x, dout []T, d int) {
	for w := 0; w < len(dfilter); w += d {
		for at := 0; at+w < len(x); at += d {
			mulAdd(dfilter[w:w+d], dout[at:at+d], x[at+w:at+w+d])
		}
	}
}
