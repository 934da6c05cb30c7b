package layers

// Kron is the Kronecker product: each element of x times the whole of y.
//
// Options: Name. Op: kron.
func Kron(x, y Variable, opts ...Option) Variable {
	l := start("kron", opts, nil, x, y)
	return l.result(l.op("kron", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// AddMM is beta*input + alpha*x y for matrices: input [m, n], x [m, k] and y [k, n].
//
// Options: Name. Op: addmm.
func AddMM(input, x, y Variable, alpha, beta float64, opts ...Option) Variable {
	l := start("addmm", opts, nil, input, x, y)
	return l.result(l.op("addmm", In{"Input": {input}, "X": {x}, "Y": {y}}, Attrs{"Alpha": alpha, "Beta": beta}, "Out"))
}

// MV multiplies a matrix x [m, k] by a vector [k]: [m].
//
// Options: Name. Op: mv.
func MV(x, vector Variable, opts ...Option) Variable {
	l := start("mv", opts, nil, x, vector)
	return l.result(l.op("mv", In{"X": {x}, "Vec": {vector}}, nil, "Out"))
}

// Inverse is the inverse of the matrices on the last two axes. A matrix that has none ends the run.
//
// Options: Name. Op: inverse.
func Inverse(x Variable, opts ...Option) Variable {
	l := start("inverse", opts, nil, x)
	return l.result(l.op("inverse", In{"Input": {x}}, nil, "Output"))
}

// Solve solves the systems x*out = y of linear equations, x of square matrices on the last two axes. y has a column for each right side, or is one right side for each
// matrix. One of both may be the same for all systems, without their axes. A matrix that has no inverse ends the run.
//
// Options: Name. Op: solve.
func Solve(x, y Variable, opts ...Option) Variable {
	l := start("solve", opts, nil, x, y)
	return l.result(l.op("solve", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// Atan2 is the angle of points, from -pi to pi: atan(y/x) in the quadrant of (x, y), for each element.
//
// Options: Name. Op: atan2.
func Atan2(y, x Variable, opts ...Option) Variable {
	l := start("atan2", opts, nil, y, x)
	return l.result(l.op("atan2", In{"X1": {y}, "X2": {x}}, nil, "Out"))
}

// Histogram counts elements in bins of equal width from low to high, int64 [bins]. With both 0, the bins reach from the smallest element to the largest.
//
// Options: Name. Op: histogram.
func Histogram(x Variable, bins, low, high int, opts ...Option) Variable {
	l := start("histogram", opts, nil, x)
	return l.result(l.op("histogram", In{"X": {x}}, Attrs{"bins": bins, "min": low, "max": high}, "Out"))
}
