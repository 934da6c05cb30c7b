package layers

// Trunc is x without its fraction. Its gradient is 0.
func Trunc(x Variable, opts ...Option) Variable { return unary("trunc", x, opts) }

// LGamma is the logarithm of the magnitude of the gamma function.
func LGamma(x Variable, opts ...Option) Variable { return unary("lgamma", x, opts) }

// Digamma is the derivative of the logarithm of the gamma function, NaN at 0, -1, -2, ...
func Digamma(x Variable, opts ...Option) Variable { return unary("digamma", x, opts) }

// Erfinv is the number whose error function is x, NaN beyond [-1, 1].
func Erfinv(x Variable, opts ...Option) Variable { return unary("erfinv", x, opts) }

// Logit is the logarithm of the odds x/(1-x) of probabilities, which are limited to [eps, 1-eps]. With an eps of 0 they are not limited.
//
// Options: Name. Op: logit.
func Logit(x Variable, eps float64, opts ...Option) Variable {
	l := start("logit", opts, nil, x)
	return l.result(l.op("logit", In{"X": {x}}, Attrs{"eps": eps}, "Out"))
}

// I0 is the modified Bessel function of the first kind of order 0.
//
// Options: Name. Op: i0.
func I0(x Variable, opts ...Option) Variable { return bessel("i0", x, opts) }

// I0e is I0 times exp(-|x|), for each element.
//
// Options: Name. Op: i0e.
func I0e(x Variable, opts ...Option) Variable { return bessel("i0e", x, opts) }

// I1 is the modified Bessel function of the first kind of order 1, for each element.
//
// Options: Name. Op: i1.
func I1(x Variable, opts ...Option) Variable { return bessel("i1", x, opts) }

// I1e is I1 times exp(-|x|), for each element.
//
// Options: Name. Op: i1e.
func I1e(x Variable, opts ...Option) Variable { return bessel("i1e", x, opts) }

func bessel(op string, x Variable, opts []Option) Variable {
	l := start(op, opts, nil, x)
	return l.result(l.op(op, In{"x": {x}}, nil, "out"))
}

// FMax is the larger of x and y, and where one of them is NaN the other. Options as Add.
func FMax(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_fmax", x, y, opts) }

// FMin is the smaller of x and y, and where one of them is NaN the other. Options as Add.
func FMin(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_fmin", x, y, opts) }

// Lerp is x + weight*(y - x). Extents of 1 repeat. No gradient flows to weight.
//
// Options: Name. Op: lerp.
func Lerp(x, y, weight Variable, opts ...Option) Variable {
	l := start("lerp", opts, nil, x, y, weight)
	return l.result(l.op("lerp", In{"X": {x}, "Y": {y}, "Weight": {weight}}, nil, "Out"))
}

// Dist is the norm of order p of x - y, whose extents of 1 repeat, [1].
//
// Options: Name. Op: dist.
func Dist(x, y Variable, p float64, opts ...Option) Variable {
	l := start("dist", opts, nil, x, y)
	return l.result(l.op("dist", In{"X": {x}, "Y": {y}}, Attrs{"p": p}, "Out"))
}

// Cross is the cross product of vectors of three numbers along an axis.
//
// Options: Name. Op: cross.
func Cross(x, y Variable, axis int, opts ...Option) Variable {
	l := start("cross", opts, nil, x, y)
	return l.result(l.op("cross", In{"X": {x}, "Y": {y}}, Attrs{"dim": axis}, "Out"))
}

// Trace sums the diagonal of each matrix that two axes of x span. offset says which diagonal: 0 for the main one, above it for numbers above 0.
//
// Options: Name. Op: trace.
func Trace(x Variable, offset, rows, columns int, opts ...Option) Variable {
	return diagonals("trace", x, Attrs{"offset": offset, "axis1": rows, "axis2": columns}, opts)
}

// Diagonal takes the diagonal of each matrix that two axes of x span. Arguments as Trace.
//
// Options: Name. Op: diagonal.
func Diagonal(x Variable, offset, rows, columns int, opts ...Option) Variable {
	return diagonals("diagonal", x, Attrs{"offset": offset, "axis1": rows, "axis2": columns}, opts)
}

// DiagEmbed makes a matrix of each row of x along its last axis, which becomes its diagonal; rows and columns are axes of the result. offset as in Trace.
//
// Options: Name. Op: diag_embed.
func DiagEmbed(x Variable, offset, rows, columns int, opts ...Option) Variable {
	return diagonals("diag_embed", x, Attrs{"offset": offset, "dim1": rows, "dim2": columns}, opts)
}

func diagonals(opType string, x Variable, attrs Attrs, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	return l.result(l.op(opType, In{"Input": {x}}, attrs, "Out"))
}

// FillDiagonal writes a value on the main diagonal of a copy of x.
//
// Options: Name. Op: fill_diagonal.
func FillDiagonal(x Variable, value float64, opts ...Option) Variable {
	l := start("fill_diagonal", opts, nil, x)
	return l.result(l.op("fill_diagonal", In{"X": {x}}, Attrs{"value": value}, "Out"))
}

// TrilIndices lists the elements of the lower triangle of a matrix, int64 [2, elements]: their rows and their columns. offset is the last diagonal that belongs to it.
//
// Options: Name. Op: tril_indices.
func TrilIndices(m *Model, rows, columns, offset int, opts ...Option) Variable {
	l := begin(m, "tril_indices", opts)
	return l.result(l.op("tril_indices", nil, Attrs{"rows": rows, "cols": columns, "offset": offset}, "out"))
}

// TriuIndices lists the elements of the upper triangle of a matrix, int64 [2, elements]: their rows and their columns. offset is the first diagonal that belongs to it.
//
// Options: Name. Op: triu_indices.
func TriuIndices(m *Model, rows, columns, offset int, opts ...Option) Variable {
	l := begin(m, "triu_indices", opts)
	return l.result(l.op("triu_indices", nil, Attrs{"row": rows, "col": columns, "offset": offset}, "out"))
}

// Cholesky is the lower triangle whose product with its transposed one is x, for symmetric matrices on the last two axes. A matrix that is not positive definite
// ends the run.
//
// Options: Name. Op: cholesky.
func Cholesky(x Variable, opts ...Option) Variable { return unary("cholesky", x, opts) }

// Determinant has the determinants of the matrices on the last two axes.
//
// Options: Name. Op: determinant.
func Determinant(x Variable, opts ...Option) Variable { return diagonals("determinant", x, nil, opts) }

// MatrixPower is the power n of the matrices on the last two axes; a negative one is that of the inverse.
//
// Options: Name. Op: matrix_power.
func MatrixPower(x Variable, n int, opts ...Option) Variable {
	l := start("matrix_power", opts, nil, x)
	return l.result(l.op("matrix_power", In{"X": {x}}, Attrs{"n": n}, "Out"))
}

// KthValue is the k-th smallest element of x along an axis, from 1, and its place.
//
// Options: Axis (default: the last), Name. Op: kthvalue.
func KthValue(x Variable, k int, opts ...Option) (values, places Variable) {
	l := start("kthvalue", opts, []string{"Axis"}, x)
	outs := l.multi("kthvalue", In{"X": {x}}, Attrs{"k": k, "axis": l.axis}, "Out", "Indices")
	return l.result(outs[0]), outs[1]
}

// Mode is the most frequent element of x along an axis, of several the smallest, and its last place.
//
// Options: Axis (default: the last), Name. Op: mode.
func Mode(x Variable, opts ...Option) (values, places Variable) {
	l := start("mode", opts, []string{"Axis"}, x)
	outs := l.multi("mode", In{"X": {x}}, Attrs{"axis": l.axis}, "Out", "Indices")
	return l.result(outs[0]), outs[1]
}

// CumProd has the products of x along an axis up to each place.
//
// Options: Axis (default: the last), Name. Op: cumprod.
func CumProd(x Variable, opts ...Option) Variable {
	l := start("cumprod", opts, []string{"Axis"}, x)
	return l.result(l.op("cumprod", In{"X": {x}}, Attrs{"dim": l.axis}, "Out"))
}

// SearchSorted finds where values belong in rows that ascend along the last axis: how many elements of the row are less than each value, int64.
//
// Options: Name. Op: searchsorted.
func SearchSorted(sorted, values Variable, opts ...Option) Variable {
	l := start("searchsorted", opts, nil, sorted, values)
	return l.result(l.op("searchsorted", In{"SortedSequence": {sorted}, "Values": {values}}, nil, "Out"))
}

// TakeAlongAxis takes places of each lane of x along an axis. index has the extents of x but along the axis.
//
// Options: Name. Op: take_along_axis.
func TakeAlongAxis(x, index Variable, axis int, opts ...Option) Variable {
	l := start("take_along_axis", opts, nil, x, index)
	return l.result(l.op("take_along_axis", In{"Input": {x}, "Index": {index}}, Attrs{"Axis": axis}, "Result"))
}

// PutAlongAxis writes values to places of each lane of a copy of x along an axis. index has the extents of x but along the axis, and values those of index, or one
// number. reduce is assign, add or mul.
//
// Options: Name. Op: put_along_axis.
func PutAlongAxis(x, index, values Variable, axis int, reduce string, opts ...Option) Variable {
	l := start("put_along_axis", opts, nil, x, index, values)
	return l.result(l.op("put_along_axis", In{"Input": {x}, "Index": {index}, "Value": {values}}, Attrs{"Axis": axis, "Reduce": reduce}, "Result"))
}

// NLLLoss is the mean of -x at the labels: x has logarithms of probabilities [batch, classes, ...], and label int64 [batch, ...]. Labels of IgnoreIndex do not count.
//
// Options: IgnoreIndex, Name. Op: nll_loss.
func NLLLoss(x, label Variable, opts ...Option) Variable {
	l := start("nll_loss", opts, []string{"IgnoreIndex"}, x, label)
	return l.result(l.multi("nll_loss", In{"X": {x}, "Label": {label}}, Attrs{"ignore_index": l.ignore}, "Out", "Total_weight")[0])
}

// SetValue writes values to a part of a copy of x: on each of axes, to the positions from starts to ends. The values repeat where their extents are 1.
//
// Options: Name. Op: set_value.
func SetValue(x, values Variable, axes []int, starts, ends []int64, opts ...Option) Variable {
	l := start("set_value", opts, nil, x, values)
	return l.result(l.op("set_value", In{"Input": {x}, "ValueTensor": {values}}, Attrs{"axes": axes, "starts": starts, "ends": ends, "dtype": x.DType()}, "Out"))
}

// Frame cuts signals [..., samples] into frames of so many samples, each of which begins hop samples after the one before. The result is [..., length, frames]. With Axis(0)
// x is [samples, ...], and the result [frames, length, ...].
//
// Options: Axis, Name. Op: frame.
func Frame(x Variable, length, hop int64, opts ...Option) Variable {
	l := start("frame", opts, []string{"Axis"}, x)
	return l.result(l.op("frame", In{"X": {x}}, Attrs{"frame_length": length, "hop_length": hop, "axis": l.axis}, "Out"))
}

// OverlapAdd adds up frames [..., length, frames] to signals, each of which begins hop samples after the one before. With Axis(0) x is [frames, length, ...].
//
// Options: Axis, Name. Op: overlap_add.
func OverlapAdd(x Variable, hop int64, opts ...Option) Variable {
	l := start("overlap_add", opts, []string{"Axis"}, x)
	return l.result(l.op("overlap_add", In{"X": {x}}, Attrs{"hop_length": hop, "axis": l.axis}, "Out"))
}

// Eigh is the decomposition of symmetric matrices on the last two axes of x, of which it reads the lower triangle: the eigenvalues in ascending order, and the eigenvectors as columns.
//
// Options: Name (of values). Op: eigh.
func Eigh(x Variable, opts ...Option) (values, vectors Variable) {
	l := start("eigh", opts, nil, x)
	out := l.multi("eigh", In{"X": {x}}, nil, "Eigenvalues", "Eigenvectors")
	return l.result(out[0]), out[1]
}
