package gradcheck

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Floats makes a float64 tensor. It panics when values do not fill dims, since cases are written by hand.
func Floats(dims []int64, values ...float64) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Ints makes an int64 tensor.
func Ints(dims []int64, values ...int64) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Int32s makes an int32 tensor.
func Int32s(dims []int64, values ...int32) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Bools makes a bool tensor.
func Bools(dims []int64, values ...bool) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Spread makes a float64 tensor of numbers between -1 and 1 that depend on seed. All are different and at least 1/(2n) from 0 and
// from each other, so that finite differences never cross a kink or change an order.
func Spread(seed int, dims ...int64) *tensor.Tensor {
	n, _ := tensor.Count(dims)
	values := make([]float64, n)
	step := 1 + seed%7
	for gcd(step, n) != 1 {
		step++
	}
	for i := range values {
		place := (i*step + seed) % n
		values[i] = (2*float64(place)+1)/float64(n) - 1
		if math.Abs(values[i]) < 1/float64(4*n) {
			values[i] = 1 / float64(2*n)
		}
	}
	return Floats(dims, values...)
}

// One puts tensors into the form of a slot.
func One(values ...*tensor.Tensor) []*tensor.Tensor { return values }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func some(dims []int64) []int64 {
	if dims == nil {
		return []int64{}
	}
	return dims
}

func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// convert copies t; a float64 tensor becomes one of the given type.
func convert(t *tensor.Tensor, float tensor.DType) *tensor.Tensor {
	if t.DType() != tensor.Float64 || float == tensor.Float64 {
		return t.Clone()
	}
	c := must(tensor.New(float, t.Dims()...))
	for i, v := range t.Float64s() {
		c.Float32s()[i] = float32(v)
	}
	c.SetLoD(t.LoD())
	return withRows(c, t)
}

// numbers returns the elements of any tensor as float64.
func numbers(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		switch t.DType() {
		case tensor.Float64:
			out[i] = t.Float64s()[i]
		case tensor.Float32:
			out[i] = float64(t.Float32s()[i])
		case tensor.Int64:
			out[i] = float64(t.Int64s()[i])
		case tensor.Int32:
			out[i] = float64(t.Int32s()[i])
		case tensor.Bool:
			if t.Bools()[i] {
				out[i] = 1
			}
		}
	}
	return out
}

// garble fills a tensor with values that betray a kernel which reads before it writes.
func garble(t *tensor.Tensor) *tensor.Tensor {
	for i := range t.Len() {
		switch t.DType() {
		case tensor.Float64:
			t.Float64s()[i] = math.NaN()
		case tensor.Float32:
			t.Float32s()[i] = float32(math.NaN())
		case tensor.Int64:
			t.Int64s()[i] = -1 << 40
		case tensor.Int32:
			t.Int32s()[i] = -1 << 20
		case tensor.Bool:
			t.Bools()[i] = i%2 == 0
		}
	}
	return t
}

// near reports whether two numbers agree within tolerance, relative to the larger of 1 and want.
func near(got, want, tolerance float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(want) && math.IsNaN(got) || got == want
	}
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

// firstFar returns the index of the first element of got that is not near that of want, -1 when all are.
func firstFar(got, want *tensor.Tensor, tolerance float64) int {
	g, w := numbers(got), numbers(want)
	for i := range w {
		if !near(g[i], w[i], tolerance) {
			return i
		}
	}
	return -1
}
