package kernel

import "github.com/edl-go/edl/tensor"

// The inner loops of the elementwise functions: a vector with a vector, and a vector with one number. x and y are at least
// as long as out.

func addVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Add(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = x[i] + y[i]
	}
}

func addScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.AddScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = x[i] + y
	}
}

func subVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Sub(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = x[i] - y[i]
	}
}

func subScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.SubScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = x[i] - y
	}
}

func mulVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Mul(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = x[i] * y[i]
	}
}

func mulScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.MulScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = x[i] * y
	}
}

func divVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Div(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = quotient(x[i], y[i])
	}
}

func divScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.DivScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = quotient(x[i], y)
	}
}

func maxVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Max(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = max(x[i], y[i])
	}
}

func maxScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.MaxScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = max(x[i], y)
	}
}

func minVectors[T Number](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.Min(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] = min(x[i], y[i])
	}
}

func minScalar[T Number](out, x []T, y T) {
	x = x[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.MinScalar(singles(out), singles(x), float32(y))
		return
	}
	for i := range out {
		out[i] = min(x[i], y)
	}
}

// quotient is x/y without the panic of an integer division by zero. T(1)/2 is 0 for the integers, a constant that the
// compiler folds.
func quotient[T Number](x, y T) T {
	one := T(1)
	if y == 0 && one/2 == 0 {
		return 0
	}
	return x / y
}

// mulAdd computes out += x*y, not fused.
func mulAdd[T tensor.Float](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	if v := vectorsFor[T](len(out)); v != nil {
		v.MulAdd(singles(out), singles(x), singles(y))
		return
	}
	for i := range out {
		out[i] += T(x[i] * y[i])
	}
}
