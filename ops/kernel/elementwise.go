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
