package layers

import "github.com/edl-go/edl/fault"

// MatchMatrixTensor compares each row of a sequence of x, [rows, M], with each row of the sequence of y at its place, [rows, N], in so many channels: the result has for
// each pair of sequences channel after channel, and of a channel row after row of x, [elements, 1]. Parameter: w_0 [M, channels, N].
//
// Options: Act, Param (default Xavier), Name. Op: match_matrix_tensor.
func MatchMatrixTensor(x, y Variable, channels int64, opts ...Option) Variable {
	l := start("match_matrix_tensor", opts, []string{"Act", "Param"}, x, y)
	if !l.failed && (channels < 1 || x.rank() != 2 || y.rank() != 2) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d channels of %v and %v", channels, x, y), fault.Want("at least 1, of two matrices")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{x.v.Dims[1], channels, y.v.Dims[1]}, Xavier())
	out := l.multi("match_matrix_tensor", In{"X": {x}, "Y": {y}, "W": {w}}, Attrs{"dim_t": channels}, "Out", "Tmp")
	return l.result(l.activate(out[0]))
}

// VarConv2D convolves grids of different extents, such as those of MatchMatrixTensor: the grid of a sequence has a row for each row of rows, and a column for each row
// of columns. x has inputs channels of each grid, the result has filters channels. Zeros lie around a grid, so that a step of 1 keeps its extents. Parameter: w_0
// [filters, inputs*size*size].
//
// Options: Act, Param (default Xavier), Stride, WindowSize, Name. Op: var_conv_2d.
func VarConv2D(x, rows, columns Variable, inputs, filters, size int64, opts ...Option) Variable {
	l := start("var_conv_2d", opts, []string{"Act", "Param", "Stride", "WindowSize"}, x, rows, columns)
	window := l.windowOr(size)
	if !l.failed && (inputs < 1 || filters < 1 || window[0] < 1 || window[1] < 1) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d filters of %d channels and size %v", filters, inputs, window), fault.Want("at least 1 each")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{filters, inputs * window[0] * window[1]}, Xavier())
	out := l.multi("var_conv_2d", In{"X": {x}, "ROW": {rows}, "COLUMN": {columns}, "W": {w}}, Attrs{"InputChannel": inputs, "OutputChannel": filters,
		"KernelH": window[0], "KernelW": window[1], "StrideH": l.stride[0], "StrideW": l.stride[1]}, "Out", "Col")
	return l.result(l.activate(out[0]))
}

// SequenceTopKAvgPooling takes, of each row of the grids that VarConv2D describes, the mean of its largest elements: for each channel and each number of tops one
// column of the result, [rows of rows, channels*len(tops)].
//
// Options: Name. Op: sequence_topk_avg_pooling.
func SequenceTopKAvgPooling(x, rows, columns Variable, tops []int, channels int64, opts ...Option) Variable {
	l := start("sequence_topk_avg_pooling", opts, nil, x, rows, columns)
	return l.result(l.multi("sequence_topk_avg_pooling", In{"X": {x}, "ROW": {rows}, "COLUMN": {columns}}, Attrs{"topks": tops, "channel_num": channels}, "Out", "pos")[0])
}
