package kernel

import "github.com/edl-go/edl/tensor"

// PoolRows makes one row of the rows of x, at least one, each as wide as out: their sum, MEAN, MAX or MIN by column, in the order of the rows.
func PoolRows[T Number](out, x []T, kind string) {
	copy(out, x)
	width := len(out)
	for at := width; at < len(x); at += width {
		for i, v := range x[at : at+width] {
			switch {
			case kind == "MAX":
				out[i] = max(out[i], v)
			case kind == "MIN":
				out[i] = min(out[i], v)
			default:
				out[i] += v
			}
		}
	}
	if kind == "MEAN" && width > 0 {
		n := T(len(x) / width)
		for i := range out {
			out[i] /= n
		}
	}
}

// PoolRowsGrad gives each row of dx the gradient of the row that PoolRows has made of x: with MEAN divided by how many rows there are, with MAX and MIN where the element is
// that of out.
func PoolRowsGrad[T tensor.Float](dx, x, out, dout []T, kind string) {
	width := len(out)
	if width == 0 {
		return
	}
	n := T(len(x) / width)
	for i := range dx {
		g := dout[i%width]
		switch {
		case kind == "MEAN":
			g /= n
		case kind != "SUM" && x[i] != out[i%width]:
			g = 0
		}
		dx[i] = g
	}
}
