package kernel

import "github.com/edl-go/edl/tensor"

// The comparisons and logical functions work elementwise on slices of one length. A comparison with NaN is false.

// LessThan computes out = x < y.
func LessThan[T Number](out []bool, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] < y[i]
	}
}

// LessEqual computes out = x <= y.
func LessEqual[T Number](out []bool, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] <= y[i]
	}
}

// GreaterThan computes out = x > y.
func GreaterThan[T Number](out []bool, x, y []T) { LessThan(out, y, x) }

// GreaterEqual computes out = x >= y.
func GreaterEqual[T Number](out []bool, x, y []T) { LessEqual(out, y, x) }

// Equal computes out = (x == y).
func Equal[T tensor.Element](out []bool, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] == y[i]
	}
}

// NotEqual computes out = (x != y).
func NotEqual[T tensor.Element](out []bool, x, y []T) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] != y[i]
	}
}

// LogicalNot computes out = !x. out may be x.
func LogicalNot(out, x []bool) {
	x = x[:len(out)]
	for i := range out {
		out[i] = !x[i]
	}
}

// LogicalAnd computes out = x && y. out may be x or y.
func LogicalAnd(out, x, y []bool) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] && y[i]
	}
}

// LogicalOr computes out = x || y. out may be x or y.
func LogicalOr(out, x, y []bool) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] || y[i]
	}
}

// BitAnd computes out = x & y. out may be x or y.
func BitAnd[T Index](out, x, y []T) {
	for i, v := range x[:len(out)] {
		out[i] = v & y[i]
	}
}

// BitOr computes out = x | y. out may be x or y.
func BitOr[T Index](out, x, y []T) {
	for i, v := range x[:len(out)] {
		out[i] = v | y[i]
	}
}

// BitXor computes out = x ^ y. out may be x or y.
func BitXor[T Index](out, x, y []T) {
	for i, v := range x[:len(out)] {
		out[i] = v ^ y[i]
	}
}

// BitNot computes out = ^x. out may be x.
func BitNot[T Index](out, x []T) {
	for i, v := range x[:len(out)] {
		out[i] = ^v
	}
}

// FirstNonFinite returns the index of the first NaN or infinity in x, or -1 when all elements are finite.
func FirstNonFinite[T tensor.Float](x []T) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
