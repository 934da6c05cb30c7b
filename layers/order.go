package layers

// ArgMax has the places of the largest elements along an axis, which a negative number counts from the end; of equal ones the first.
//
// Options: Name. Op: arg_max.
func ArgMax(x Variable, axis int, opts ...Option) Variable { return argBest("arg_max", x, axis, opts) }

// ArgMin has the places of the smallest elements. Arguments as ArgMax.
func ArgMin(x Variable, axis int, opts ...Option) Variable { return argBest("arg_min", x, axis, opts) }

func argBest(opType string, x Variable, axis int, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	return l.result(l.op(opType, In{"X": {x}}, Attrs{"axis": axis}, "Out"))
}

// ArgSort sorts x along an axis in ascending order. It returns the elements and their places.
//
// Options: Axis (default: the last), Name. Op: argsort.
func ArgSort(x Variable, opts ...Option) (sorted, places Variable) {
	l := start("argsort", opts, []string{"Axis"}, x)
	outs := l.multi("argsort", In{"X": {x}}, Attrs{"axis": l.axis}, "Out", "Indices")
	return l.result(outs[0]), outs[1]
}

// CumSum has the sums of x along an axis up to each place.
//
// Options: Axis (default: the last), Name. Op: cumsum.
func CumSum(x Variable, opts ...Option) Variable {
	l := start("cumsum", opts, []string{"Axis"}, x)
	return l.result(l.op("cumsum", In{"X": {x}}, Attrs{"axis": l.axis}, "Out"))
}

// LogCumSumExp has the logarithms of the sums of e**x along an axis up to each place.
//
// Options: Axis (default: the last), Name. Op: logcumsumexp.
func LogCumSumExp(x Variable, opts ...Option) Variable {
	l := start("logcumsumexp", opts, []string{"Axis"}, x)
	return l.result(l.op("logcumsumexp", In{"X": {x}}, Attrs{"axis": l.axis}, "Out"))
}

// ShardIndex has the place of each number within a shard: numbers below n are cut into runs of equal length, one for each shard. A number of another shard
// becomes -1.
//
// Options: Name. Op: shard_index.
func ShardIndex(x Variable, n, shards, shard int, opts ...Option) Variable {
	l := start("shard_index", opts, nil, x)
	return l.result(l.op("shard_index", In{"X": {x}}, Attrs{"index_num": n, "nshards": shards, "shard_id": shard, "ignore_value": -1}, "Out"))
}

// ReduceMin takes the smallest element of x along axes. Options as ReduceSum.
func ReduceMin(x Variable, opts ...Option) Variable { return reduce("reduce_min", x, opts) }

// ReduceProd multiplies the elements of x along axes. Options as ReduceSum.
func ReduceProd(x Variable, opts ...Option) Variable { return reduce("reduce_prod", x, opts) }

// ReduceAll is true where all booleans of x along axes are. Options as ReduceSum.
func ReduceAll(x Variable, opts ...Option) Variable { return reduce("reduce_all", x, opts) }

// ReduceAny is true where one of the booleans of x along axes is. Options as ReduceSum.
func ReduceAny(x Variable, opts ...Option) Variable { return reduce("reduce_any", x, opts) }

// LogSumExp is the logarithm of the sum of e**x along axes. Options as ReduceSum.
func LogSumExp(x Variable, opts ...Option) Variable { return reduce("logsumexp", x, opts) }

// FrobeniusNorm is the square root of the sum of squares of x along axes. Options as ReduceSum.
func FrobeniusNorm(x Variable, opts ...Option) Variable { return reduce("frobenius_norm", x, opts) }

// L1Norm is the sum of magnitudes of all elements of x.
//
// Options: Name. Op: l1_norm.
func L1Norm(x Variable, opts ...Option) Variable { return unary("l1_norm", x, opts) }

// PNorm is the norm of order p of x along an axis. An order of 0 counts what is not 0, and infinity takes the largest magnitude.
//
// Options: Axis (default: the last), Name. Op: p_norm.
func PNorm(x Variable, p float64, opts ...Option) Variable {
	l := start("p_norm", opts, []string{"Axis"}, x)
	return l.result(l.op("p_norm", In{"X": {x}}, Attrs{"porder": p, "axis": l.axis}, "Out"))
}

// Renorm limits the p-norms of the parts of x along an axis, which a negative number counts from the end: a part whose norm is above limit is multiplied by limit/norm.
//
// Options: Name. Op: renorm.
func Renorm(x Variable, p float64, axis int, limit float64, opts ...Option) Variable {
	l := start("renorm", opts, nil, x)
	return l.result(l.op("renorm", In{"X": {x}}, Attrs{"p": p, "axis": axis, "max_norm": limit}, "Out"))
}

// L2Normalize divides x by its Euclidean norm along an axis. Epsilon is added to the sum of squares; the default is 1e-12.
//
// Options: Epsilon, Name. Op: norm.
func L2Normalize(x Variable, axis int, opts ...Option) Variable {
	l := start("l2_normalize", append([]Option{Epsilon(1e-12)}, opts...), []string{"Epsilon"}, x)
	return l.result(l.multi("norm", In{"X": {x}}, Attrs{"axis": axis, "epsilon": l.epsilon}, "Out", "Norm")[0])
}

// Unfold shows the windows that slide over images as columns: a row for each channel and place in the window, a column for each position of the window. Padding
// is on both sides of each axis.
//
// Options: Stride, Padding, Dilation, Name. Op: unfold.
func Unfold(x Variable, height, width int64, opts ...Option) Variable {
	l := start("unfold", opts, []string{"Stride", "Padding", "Dilation"}, x)
	attrs := Attrs{"kernel_sizes": []int64{height, width}, "strides": l.stride, "paddings": append(append([]int64{}, l.padding...), l.padding...), "dilations": l.dilation}
	return l.result(l.op("unfold", In{"X": {x}}, attrs, "Y"))
}

// Fold makes images of imageHeight x imageWidth of columns that show windows, as Unfold makes them: each element is the sum of what all windows show at its place.
//
// Options: Stride, Padding, Dilation, Name. Op: fold.
func Fold(x Variable, imageHeight, imageWidth, height, width int64, opts ...Option) Variable {
	l := start("fold", opts, []string{"Stride", "Padding", "Dilation"}, x)
	attrs := Attrs{"output_sizes": []int64{imageHeight, imageWidth}, "kernel_sizes": []int64{height, width}, "strides": l.stride,
		"paddings": append(append([]int64{}, l.padding...), l.padding...), "dilations": l.dilation}
	return l.result(l.op("fold", In{"X": {x}}, attrs, "Y"))
}

// CumMax has the largest element of x along an axis up to each place, and its place; of equal ones the last.
//
// Options: Axis (default: the last), Name. Op: cummax.
func CumMax(x Variable, opts ...Option) (values, places Variable) { return extremes("cummax", x, opts) }

// CumMin has the smallest elements. Arguments as CumMax.
//
// Options: Axis (default: the last), Name. Op: cummin.
func CumMin(x Variable, opts ...Option) (values, places Variable) { return extremes("cummin", x, opts) }

func extremes(op string, x Variable, opts []Option) (values, places Variable) {
	l := start(op, opts, []string{"Axis"}, x)
	outs := l.multi(op, In{"x": {x}}, Attrs{"axis": l.axis}, "out", "indices")
	return l.result(outs[0]), outs[1]
}

// NanMedian has the medians of the elements along axes, which negative numbers count from the end, that are not NaN: the one in the middle, or the mean of the two there. The axes stay with
// extents of 1. No axes stand for all.
//
// Options: Name. Op: nanmedian.
func NanMedian(x Variable, axes []int, opts ...Option) Variable {
	l := start("nanmedian", opts, nil, x)
	return l.result(l.multi("nanmedian", In{"X": {x}}, Attrs{"axis": axes}, "Out", "MedianIndex")[0])
}
