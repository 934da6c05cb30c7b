package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The elementwise functions combine x with a y that Fluid broadcasts over it. x and out are seen as [pre, n, post] and y
// as [n]: out[p,i,q] = x[p,i,q] op y[i]. Operands of one shape are pre 1, n their length, post 1. out may be x or, for
// operands of one shape, y.

// Add computes out = x + y, broadcast as [pre, n, post].
func Add[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, addVectors[T], addScalar[T])
}

// Sub computes out = x - y, broadcast as [pre, n, post].
func Sub[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, subVectors[T], subScalar[T])
}

// Mul computes out = x * y, broadcast as [pre, n, post].
func Mul[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, mulVectors[T], mulScalar[T])
}

// Div computes out = x / y, broadcast as [pre, n, post]. For integers it truncates towards zero and, where Go would panic,
// gives 0 for a division by zero.
func Div[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, divVectors[T], divScalar[T])
}

// Max computes out = max(x, y), broadcast as [pre, n, post]. A NaN on either side gives NaN.
func Max[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, maxVectors[T], maxScalar[T])
}

// Min computes out = min(x, y), broadcast as [pre, n, post]. A NaN on either side gives NaN.
func Min[T Number](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, minVectors[T], minScalar[T])
}

// Pow computes out = x**y, broadcast as [pre, n, post], with the special cases of math.Pow.
func Pow[T tensor.Float](out, x, y []T, pre, n, post int) {
	broadcast(out, x, y, pre, n, post, powVectors[T], powScalar[T])
}

// Mod computes out = x - y*floor(x/y), broadcast as [pre, n, post]: the remainder with the sign of y. For integers it is 0 where y is.
func Mod[T Number](out, x, y []T, pre, n, post int) {
	one := T(1)
	remainder := func(x, y T) T {
		if one/2 == 0 {
			if y == 0 {
				return 0
			}
			r := x - x/y*y
			if r != 0 && (r < 0) != (y < 0) {
				r += y
			}
			return r
		}
		r := math.Mod(float64(x), float64(y))
		if r != 0 && (r < 0) != (y < 0) {
			r += float64(y)
		}
		return T(r)
	}
	eachPair(out, x, y, pre, n, post, remainder)
}

// Quotient computes out = x/y towards zero, broadcast as [pre, n, post].
func Quotient[T tensor.Float](out, x, y []T, pre, n, post int) {
	eachPair(out, x, y, pre, n, post, func(x, y T) T { return T(math.Trunc(float64(x / y))) })
}

// eachPair applies f to each element of x and its element of y.
func eachPair[T Number](out, x, y []T, pre, n, post int, f func(x, y T) T) {
	for p := range pre {
		for i, v := range y[:n] {
			at := (p*n + i) * post
			for q := at; q < at+post; q++ {
				out[q] = f(x[q], v)
			}
		}
	}
}

// PowWhole computes out = x**y of whole numbers by squaring, broadcast as [pre, n, post]. It wraps around. A negative power is 0, but for bases of 1 and -1.
func PowWhole[T int32 | int64](out, x, y []T, pre, n, post int) {
	eachPair(out, x, y, pre, n, post, func(base, exponent T) T {
		if exponent < 0 {
			switch base {
			case 1:
				return 1
			case -1:
				return 1 - 2*(exponent&1)
			}
			return 0
		}
		result := T(1)
		for ; exponent > 0; exponent >>= 1 {
			if exponent&1 != 0 {
				result *= base
			}
			base *= base
		}
		return result
	})
}

// PowGrad computes dx = dout*y*x**(y-1) and dy = sum(dout*log(x)*x**y), 0 where x is 0. It reads x and y.
func PowGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	clear(dy)
	for p := range pre {
		for i, v := range y[:n] {
			at, e := (p*n+i)*post, float64(v)
			for q := at; q < at+post; q++ {
				base, g := float64(x[q]), float64(dout[q])
				if dx != nil {
					dx[q] = T(g * e * math.Pow(base, e-1))
				}
				if dy != nil && base != 0 {
					dy[i] += T(g * math.Log(base) * math.Pow(base, e))
				}
			}
		}
	}
}

// broadcast runs vectors over rows of n when post is 1, else scalar over runs of post. One number for all is one run.
func broadcast[T Number](out, x, y []T, pre, n, post int, vectors func(out, x, y []T), scalar func(out, x []T, y T)) {
	if n == 1 {
		pre, post = 1, pre*post
	}
	for p := range pre {
		if post == 1 {
			vectors(out[p*n:][:n], x[p*n:][:n], y[:n])
			continue
		}
		for i, v := range y[:n] {
			at := (p*n + i) * post
			scalar(out[at:][:post], x[at:][:post], v)
		}
	}
}

func powVectors[T tensor.Float](out, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = T(math.Pow(float64(x[i]), float64(y[i])))
	}
}

func powScalar[T tensor.Float](out, x []T, y T) {
	x = x[:len(out)]
	for i := range out {
		out[i] = T(math.Pow(float64(x[i]), float64(y)))
	}
}

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

// The gradients of the elementwise functions share one signature, so that ops can table them. dx is of x's shape, dy of
// y's; either may be nil when it is not wanted. Each names which of x, y and out it reads; the others may be nil. dx may
// be dout itself. dy sums over pre in ascending order, and within one p over post.
//
// The gradient in y for a broadcast y is first summed from terms that need no y (dout, dout*x or dout*out) and then
// finished elementwise.

// AddGrad computes dx = dout, dy = sum(dout). It reads dout alone.
func AddGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	if dy != nil {
		sumOverBroadcast(dy, dout, pre, n, post)
	}
	if dx != nil {
		copy(dx, dout)
	}
}

// SubGrad computes dx = dout, dy = -sum(dout). It reads dout alone.
func SubGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	if dy != nil {
		sumOverBroadcast(dy, dout, pre, n, post)
		for i, v := range dy {
			dy[i] = -v
		}
	}
	if dx != nil {
		copy(dx, dout)
	}
}

// MulGrad computes dx = dout*y, dy = sum(dout*x). It reads x for dy and y for dx.
func MulGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	if dy != nil {
		sumProductOverBroadcast(dy, dout, x, pre, n, post)
	}
	if dx != nil {
		Mul(dx, dout, y, pre, n, post)
	}
}

// DivGrad computes dx = dout/y, dy = -sum(dout*out)/y. It reads y, and out for dy.
func DivGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	if dy != nil {
		sumProductOverBroadcast(dy, dout, out, pre, n, post)
		for i, v := range dy {
			dy[i] = -v / y[i]
		}
	}
	if dx != nil {
		Div(dx, dout, y, pre, n, post)
	}
}

// MaxGrad sends dout to x where x > y, else to y, as Fluid does. It reads x and y.
func MaxGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	chooseGrad(dx, dy, x, y, dout, pre, n, post, func(x, y T) bool { return x > y })
}

// MinGrad sends dout to x where x < y, else to y, as Fluid does. It reads x and y.
func MinGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	chooseGrad(dx, dy, x, y, dout, pre, n, post, func(x, y T) bool { return x < y })
}

func chooseGrad[T tensor.Float](dx, dy, x, y, dout []T, pre, n, post int, chosen func(x, y T) bool) {
	clear(dy)
	for p := range pre {
		for i := range n {
			for q := range post {
				at := (p*n+i)*post + q
				toX, g := chosen(x[at], y[i]), dout[at]
				if dx != nil {
					if dx[at] = 0; toX {
						dx[at] = g
					}
				}
				if dy != nil && !toX {
					dy[i] += g
				}
			}
		}
	}
}

// sumOverBroadcast computes dy[i] = sum over p and q of g[p,i,q].
func sumOverBroadcast[T tensor.Float](dy, g []T, pre, n, post int) {
	clear(dy[:n])
	if post == 1 {
		sumRows(dy[:n], g, pre)
		return
	}
	for p := range pre {
		for i := range n {
			dy[i] += T(sum(g[(p*n+i)*post:][:post]))
		}
	}
}

// sumProductOverBroadcast computes dy[i] = sum over p and q of g[p,i,q]*x[p,i,q].
func sumProductOverBroadcast[T tensor.Float](dy, g, x []T, pre, n, post int) {
	dy = dy[:n]
	clear(dy)
	for p := range pre {
		if post == 1 {
			mulAdd(dy, g[p*n:][:n], x[p*n:][:n])
			continue
		}
		for i := range n {
			at := (p*n + i) * post
			dy[i] += T(sumProduct(g[at:][:post], x[at:][:post]))
		}
	}
}

// Heaviside computes out = 0 where x < 0, y where x is 0, and else 1, broadcast as [pre, n, post].
func Heaviside[T Number](out, x, y []T, pre, n, post int) {
	eachPair(out, x, y, pre, n, post, func(x, y T) T {
		switch {
		case x < 0:
			return 0
		case x == 0:
			return y
		}
		return 1
	})
}

// HeavisideGrad sends dout to y where x is 0; x has no gradient. It reads x.
func HeavisideGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	clear(dy)
	clear(dx)
	if dy == nil {
		return
	}
	for p := range pre {
		for i := range n {
			for at := (p*n + i) * post; at < (p*n+i+1)*post; at++ {
				if x[at] == 0 {
					dy[i] += dout[at]
				}
			}
		}
	}
}
