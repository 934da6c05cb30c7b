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

// SolveTriangular solves the systems x*out = y, of which only the upper or the lower triangle of x counts. y has a column for each right side. One of both may be the
// same for all systems, without their axes. A 0 on the diagonal ends the run.
//
// Options: Name. Op: triangular_solve.
func SolveTriangular(x, y Variable, upper bool, opts ...Option) Variable {
	l := start("triangular_solve", opts, nil, x, y)
	return l.result(l.op("triangular_solve", In{"X": {x}, "Y": {y}}, Attrs{"upper": upper}, "Out"))
}

// CholeskySolve solves the systems a*out = y, where factor is what Cholesky makes of a. y has a column for each right side.
//
// Options: Name. Op: cholesky_solve.
func CholeskySolve(y, factor Variable, opts ...Option) Variable {
	l := start("cholesky_solve", opts, nil, y, factor)
	return l.result(l.op("cholesky_solve", In{"X": {y}, "Y": {factor}}, nil, "Out"))
}

// QR factors the matrices [m, n] on the last two axes of x: orthogonal columns [m, k], and a factor [k, n] that is 0 below the diagonal, k the smaller of m and n.
//
// Options: Name (of the first). Op: qr.
func QR(x Variable, opts ...Option) (orthogonal, triangular Variable) {
	l := start("qr", opts, nil, x)
	outs := l.multi("qr", In{"X": {x}}, nil, "Q", "R")
	return l.result(outs[0]), outs[1]
}

// LeastSquares has what solves the systems x*out = y as well as it can: the sum of squares of the difference is the least, and of several such the sum of squares of out. A singular value of x of at most rcond
// times the largest counts as 0. No gradient flows through it.
//
// Options: Name. Op: lstsq.
func LeastSquares(x, y Variable, rcond float64, opts ...Option) Variable {
	l := start("lstsq", opts, nil, x, y)
	return l.result(l.multi("lstsq", In{"X": {x}, "Y": {y}}, Attrs{"driver": "gelsd", "rcond": rcond}, "Solution", "Residuals", "Rank", "SingularValues")[0])
}

// LU factors the matrices [m, n] on the last two axes of x with row exchanges: factors has one from the diagonal on, and below it the other, whose diagonal is 1. pivots says which rows change places.
//
// Options: Name (of factors). Op: lu.
func LU(x Variable, opts ...Option) (factors, pivots Variable) {
	l := start("lu", opts, nil, x)
	outs := l.multi("lu", In{"X": {x}}, nil, "Out", "Pivots", "Infos")
	return l.result(outs[0]), outs[1]
}

// LUUnpack takes what LU returns apart: exchange*lower*upper is x.
//
// Options: Name (of exchange). Op: lu_unpack.
func LUUnpack(factors, pivots Variable, opts ...Option) (exchange, lower, upper Variable) {
	l := start("lu_unpack", opts, nil, factors, pivots)
	outs := l.multi("lu_unpack", In{"X": {factors}, "Pivots": {pivots}}, nil, "Pmat", "L", "U")
	return l.result(outs[0]), outs[1], outs[2]
}

// SVD has the singular values of the matrices [m, n] on the last two axes of x, in descending order, and their vectors as columns [m, k] and as rows [k, n], k the smaller of m and n.
//
// Options: Name (of values). Op: svd.
func SVD(x Variable, opts ...Option) (left, values, right Variable) {
	l := start("svd", opts, nil, x)
	outs := l.multi("svd", In{"X": {x}}, nil, "U", "S", "VH")
	return outs[0], l.result(outs[1]), outs[2]
}

// MatrixRank has the ranks of the matrices on the last two axes of x, int64: how many singular values the precision of the type tells from 0.
//
// Options: Name. Op: matrix_rank.
func MatrixRank(x Variable, opts ...Option) Variable {
	l := start("matrix_rank", opts, nil, x)
	return l.result(l.op("matrix_rank", In{"X": {x}}, nil, "Out"))
}

// LogDeterminant has the signs of the determinants of the matrices on the last two axes of x, and the logarithms of their magnitudes, [2, ...].
//
// Options: Name. Op: slogdeterminant.
func LogDeterminant(x Variable, opts ...Option) Variable {
	l := start("slogdeterminant", opts, nil, x)
	return l.result(l.op("slogdeterminant", In{"Input": {x}}, nil, "Out"))
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
