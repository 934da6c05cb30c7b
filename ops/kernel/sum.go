package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// sum adds x in four interleaved lanes of float64.
func sum[T tensor.Float](x []T) float64 {
	if v := vectorsFor[T](len(x)); v != nil {
		return v.Sum(singles(x), 0)
	}
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		s0 += float64(x[0])
		s1 += float64(x[1])
		s2 += float64(x[2])
		s3 += float64(x[3])
		x = x[4:]
	}
	switch len(x) {
	case 3:
		s2 += float64(x[2])
		fallthrough
	case 2:
		s1 += float64(x[1])
		fallthrough
	case 1:
		s0 += float64(x[0])
	}
	return (s0 + s1) + (s2 + s3)
}

// addSums adds to each element of out the sum of its row of x, whose rows are width long.
func addSums[T tensor.Float](out, x []T, width int) {
	i := 0
	if v := vectorsFor[T](width); v != nil {
		for ; i+4 <= len(out); i += 4 {
			rows := x[i*width:][:4*width]
			a, b, c, d := v.SumFour(singles(rows[:width]), width)
			out[i] += T(a)
			out[i+1] += T(b)
			out[i+2] += T(c)
			out[i+3] += T(d)
		}
	}
	for ; i < len(out); i++ {
		out[i] += T(sum(x[i*width:][:width]))
	}
}

// sumProduct adds x[i]*y[i] in four interleaved lanes of float64. y is at least as long as x.
func sumProduct[T tensor.Float](x, y []T) float64 {
	if v := vectorsFor[T](len(x)); v != nil {
		return v.SumProduct(singles(x), singles(y), 0)
	}
	var s0, s1, s2, s3 float64
	for len(x) >= 4 && len(y) >= 4 {
		s0 += float64(float64(x[0]) * float64(y[0]))
		s1 += float64(float64(x[1]) * float64(y[1]))
		s2 += float64(float64(x[2]) * float64(y[2]))
		s3 += float64(float64(x[3]) * float64(y[3]))
		x, y = x[4:], y[4:]
	}
	switch y = y[:len(x)]; len(x) {
	case 3:
		s2 += float64(float64(x[2]) * float64(y[2]))
		fallthrough
	case 2:
		s1 += float64(float64(x[1]) * float64(y[1]))
		fallthrough
	case 1:
		s0 += float64(float64(x[0]) * float64(y[0]))
	}
	return (s0 + s1) + (s2 + s3)
}

// Accumulate computes out[i] += x[i]. Both slices are of one length.
func Accumulate[T Number](out, x []T) {
	addVectors(out, out, x)
}

// narrow is how many columns sumRows takes together. Of wider rows, one row after the other is read in the order of memory.
const narrow = 64

// sumRows adds the rows of x, each as long as out, to out, one after the other.
func sumRows[T Number](out, x []T, rows int) {
	n := len(out)
	if n == 1 {
		total := out[0]
		for _, v := range x[:rows] {
			total += v
		}
		out[0] = total
		return
	}
	if v := vectorsFor[T](n); v != nil && n <= narrow && rows > 1 {
		v.SumRows(singles(out), singles(x[:rows*n]), rows)
		return
	}
	for r := range rows {
		Accumulate(out, x[r*n:][:n])
	}
}

// Axpy computes out[i] += weight*x[i]. Both slices have one length.
func Axpy[T tensor.Float](out, x []T, weight T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Axpy(singles(out), singles(x), float32(weight))
		return
	}
	for i := range out {
		out[i] += T(weight * x[i])
	}
}

// Sum returns the sum of all elements in float64.
func Sum[T tensor.Float](x []T) float64 { return sum(x) }

// Mean returns the mean of all elements (Fluid's mean), 0 for none: sequences may have no rows, and what a
// trainer computes from none counts for nothing.
func Mean[T tensor.Float](x []T) T {
	if len(x) == 0 {
		return 0
	}
	return T(sum(x) / float64(len(x)))
}

// sumSquaredDeviation adds (x[i]-center)^2 in four interleaved lanes of float64.
func sumSquaredDeviation[T tensor.Float](x []T, center float64) float64 {
	if v := vectorsFor[T](len(x)); v != nil {
		return v.SumSquaredDeviation(singles(x), center)
	}
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		d0, d1, d2, d3 := float64(x[0])-center, float64(x[1])-center, float64(x[2])-center, float64(x[3])-center
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
		x = x[4:]
	}
	for i, v := range x {
		d := float64(v) - center
		switch i {
		case 0:
			s0 += float64(d * d)
		case 1:
			s1 += float64(d * d)
		case 2:
			s2 += float64(d * d)
		}
	}
	return (s0 + s1) + (s2 + s3)
}

// Vectorized reports whether loops over float32 use vector instructions, which is at least ten times as fast.
func Vectorized() bool { return simd.Current() != simd.None }

// vectorsOf returns the vector loops for T, nil if there are none on this machine or for T.
func vectorsOf[T any]() *simd.Vectors {
	var zero T
	if _, ok := any(zero).(float32); !ok {
		return nil
	}
	return simd.Float32()
}

// shortVector is the length below which a portable loop of the same bits is faster than a call.
const shortVector = 8

// vectorsFor is vectorsOf for loops with the bits of portable loops. It returns nil if n is too small to gain.
func vectorsFor[T any](n int) *simd.Vectors {
	if n < shortVector {
		return nil
	}
	return vectorsOf[T]()
}

// singles sees x, whose elements are float32, as what it is.
func singles[T any](x []T) []float32 { return *(*[]float32)(unsafe.Pointer(&x)) }

// single is where the elements of x begin, which are float32.
func single[T any](x []T) *float32 { return unsafe.SliceData(singles(x)) }
