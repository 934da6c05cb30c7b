package kernel

import "github.com/edl-go/edl/tensor"

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
