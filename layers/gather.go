package layers

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// Gather takes rows of x: row i of the result is row index[i] of x. index has whole numbers, [N] or [N, 1].
//
// Options: Name. Op: gather.
func Gather(x, index Variable, opts ...Option) Variable {
	l := start("gather", opts, nil, x, index)
	return l.result(l.op("gather", In{"X": {x}, "Index": {index}}, nil, "Out"))
}

// IndexSelect takes places of an axis of x, which a negative number counts from the end. index is as in Gather.
//
// Options: Name. Op: index_select.
func IndexSelect(x, index Variable, axis int, opts ...Option) Variable {
	l := start("index_select", opts, nil, x, index)
	return l.result(l.op("index_select", In{"X": {x}, "Index": {index}}, Attrs{"dim": axis}, "Out"))
}

// SendReceive sends rows of x along the edges of a graph, of which sources and targets have a whole number each: each row of the result is the "SUM", "MEAN", "MAX" or "MIN" of the
// rows of x that are sent to it, and zeros where none is. rows is how many rows the result has; 0: as many as x.
//
// Options: Name. Op: graph_send_recv.
func SendReceive(x, sources, targets Variable, kind string, rows int, opts ...Option) Variable {
	l := start("send_receive", opts, nil, x, sources, targets)
	return l.result(l.multi("graph_send_recv", In{"X": {x}, "Src_index": {sources}, "Dst_index": {targets}}, Attrs{"reduce_op": kind, "out_size": []int64{int64(rows)}}, "Out", "Dst_count")[0])
}

// EdgeMessages makes a message of each edge of a graph: the sum ("ADD") or the product ("MUL") of the row of x at its source and that of y at its target. Rows repeat where extents are 1.
//
// Options: Name. Op: graph_send_uv.
func EdgeMessages(x, y, sources, targets Variable, message string, opts ...Option) Variable {
	l := start("edge_messages", opts, nil, x, y, sources, targets)
	return l.result(l.op("graph_send_uv", In{"x": {x}, "y": {y}, "src_index": {sources}, "dst_index": {targets}}, Attrs{"message_op": message}, "out"))
}

// SendReceiveEdges is SendReceive where each edge has a row of edges: it sends the sum ("ADD") or the product ("MUL") of a row of x and the row of the edge. Rows repeat where extents are 1.
//
// Options: Name. Op: graph_send_ue_recv.
func SendReceiveEdges(x, edges, sources, targets Variable, message, kind string, rows int, opts ...Option) Variable {
	l := start("send_receive", opts, nil, x, edges, sources, targets)
	return l.result(l.multi("graph_send_ue_recv", In{"X": {x}, "Y": {edges}, "Src_index": {sources}, "Dst_index": {targets}},
		Attrs{"message_op": message, "reduce_op": kind, "out_size": []int64{int64(rows)}}, "Out", "Dst_count")[0])
}

// RepeatInterleave repeats each place of an axis of x so many times, the copies one after the other. A negative axis counts from the end.
//
// Options: Name. Op: repeat_interleave.
func RepeatInterleave(x Variable, times, axis int, opts ...Option) Variable {
	l := start("repeat_interleave", opts, nil, x)
	return l.result(l.op("repeat_interleave", In{"X": {x}}, Attrs{"Repeats": times, "dim": axis}, "Out"))
}

// GatherND takes parts of x: the last axis of index has the place of a part, a number for each of the first axes of x.
//
// Options: Name. Op: gather_nd.
func GatherND(x, index Variable, opts ...Option) Variable {
	l := start("gather_nd", opts, nil, x, index)
	return l.result(l.op("gather_nd", In{"X": {x}, "Index": {index}}, nil, "Out"))
}

// IndexSample takes elements of each row: element j of row i of the result is x[i, index[i, j]].
//
// Options: Name. Op: index_sample.
func IndexSample(x, index Variable, opts ...Option) Variable {
	l := start("index_sample", opts, nil, x, index)
	return l.result(l.op("index_sample", In{"X": {x}, "Index": {index}}, nil, "Out"))
}

// Scatter is x with other rows: row index[i] is row i of updates. Of several updates of a row the last counts. A loss on a cluster cannot depend on it.
//
// Options: Name. Op: scatter.
func Scatter(x, index, updates Variable, opts ...Option) Variable {
	l := start("scatter", opts, nil, x, index, updates)
	return l.result(l.op("scatter", In{"X": {x}, "Ids": {index}, "Updates": {updates}}, Attrs{"overwrite": true}, "Out"))
}

// ScatterNDAdd is x with updates added to parts of it: the last axis of index has the place of a part, a number for each of the first axes of x.
//
// Options: Name. Op: scatter_nd_add.
func ScatterNDAdd(x, index, updates Variable, opts ...Option) Variable {
	l := start("scatter_nd_add", opts, nil, x, index, updates)
	return l.result(l.op("scatter_nd_add", In{"X": {x}, "Index": {index}, "Updates": {updates}}, nil, "Out"))
}

// IndexAdd is x with values added to places of an axis, which a negative number counts from the end. index has one axis, and names the place of each part of values.
//
// Options: Name. Op: index_add.
func IndexAdd(x, index, values Variable, axis int, opts ...Option) Variable {
	l := start("index_add", opts, nil, x, index, values)
	return l.result(l.op("index_add", In{"X": {x}, "Index": {index}, "AddValue": {values}}, Attrs{"axis": axis}, "Out"))
}

// ScatterND is ScatterNDAdd to zeros of the given dims.
//
// Options: Name. Ops: fill_constant, scatter_nd_add.
func ScatterND(index, updates Variable, dims []int64, opts ...Option) Variable {
	l := start("scatter_nd", opts, nil, index, updates)
	zeros := l.op("fill_constant", nil, Attrs{"shape": dims, "dtype": updates.DType(), "value": 0}, "Out")
	return l.result(l.op("scatter_nd_add", In{"X": {zeros}, "Index": {index}, "Updates": {updates}}, nil, "Out"))
}

// Where is x where condition is true, and y elsewhere. All have the same dims.
//
// Options: Name. Op: where.
func Where(condition, x, y Variable, opts ...Option) Variable {
	l := start("where", opts, nil, condition, x, y)
	return l.result(l.op("where", In{"Condition": {condition}, "X": {x}, "Y": {y}}, nil, "Out"))
}

// Multiplex takes each row from one of several variables: row i of the result is row i of xs[index[i]].
//
// Options: Name. Op: multiplex.
func Multiplex(xs []Variable, index Variable, opts ...Option) Variable {
	l := start("multiplex", opts, nil, append(append([]Variable{}, xs...), index)...)
	return l.result(l.op("multiplex", In{"X": xs, "Ids": {index}}, nil, "Out"))
}

// OneHot makes a vector of each class number, with a 1 at its place and zeros elsewhere. depth is the number of classes. The vectors lie on the last axis, which
// has the extent 1 in x.
//
// Options: DType, Name. Op: one_hot.
func OneHot(x Variable, depth int64, opts ...Option) Variable {
	l := start("one_hot", opts, []string{"DType"}, x)
	return l.result(l.op("one_hot", In{"X": {x}}, Attrs{"depth": depth, "dtype": l.dtype}, "Out"))
}

// Range has the numbers from begin, by steps of step, up to but without end.
//
// Options: DType, Name. Ops: fill_constant, range.
func Range(m *Model, begin, end, step float64, opts ...Option) Variable {
	l := begun(m, "range", opts)
	in := In{"Start": {constant(l, begin, l.dtype)}, "End": {constant(l, end, l.dtype)}, "Step": {constant(l, step, l.dtype)}}
	return l.result(l.op("range", in, nil, "Out"))
}

// Linspace has n numbers at equal distances from first to last.
//
// Options: DType, Name. Ops: fill_constant, linspace.
func Linspace(m *Model, first, last float64, n int, opts ...Option) Variable {
	l := begun(m, "linspace", opts)
	in := In{"Start": {constant(l, first, l.dtype)}, "Stop": {constant(l, last, l.dtype)}, "Num": {constant(l, float64(n), tensor.Int32)}}
	return l.result(l.op("linspace", in, Attrs{"dtype": l.dtype}, "Out"))
}

// Logspace has n powers of base whose exponents are at equal distances from first to last.
//
// Options: DType, Name. Ops: fill_constant, logspace.
func Logspace(m *Model, base, first, last float64, n int, opts ...Option) Variable {
	l := begun(m, "logspace", opts)
	in := In{"Start": {constant(l, first, l.dtype)}, "Stop": {constant(l, last, l.dtype)}, "Num": {constant(l, float64(n), tensor.Int32)}, "Base": {constant(l, base, l.dtype)}}
	return l.result(l.op("logspace", in, Attrs{"dtype": l.dtype}, "Out"))
}

// begun starts a layer without inputs whose element type is an option.
func begun(m *Model, kind string, opts []Option) *layer { return begin(m, kind, opts, "DType") }

// constant appends a constant of one element.
func constant(l *layer, value float64, dtype tensor.DType) Variable {
	return l.op("fill_constant", nil, Attrs{"shape": []int64{1}, "dtype": dtype, "value": value}, "Out")
}

// Eye is a matrix with ones on the diagonal.
//
// Options: DType, Name. Op: eye.
func Eye(m *Model, rows, columns int64, opts ...Option) Variable {
	l := begun(m, "eye", opts)
	return l.result(l.op("eye", nil, Attrs{"num_rows": rows, "num_columns": columns, "dtype": l.dtype}, "Out"))
}

// Diag is a square matrix with x on its diagonal, or the diagonal of a matrix x.
//
// Options: Name. Op: diag_v2.
func Diag(x Variable, opts ...Option) Variable { return unary("diag_v2", x, opts) }

// Tril keeps the lower triangle of matrices on the last two axes, and sets the rest to 0. The diagonal that is the last to stay is the main one for 0, and
// above it for numbers above 0.
//
// Options: Name. Op: tril_triu.
func Tril(x Variable, diagonal int, opts ...Option) Variable {
	return triangle(x, diagonal, true, opts)
}

// Triu keeps the upper triangle. Arguments as Tril.
func Triu(x Variable, diagonal int, opts ...Option) Variable {
	return triangle(x, diagonal, false, opts)
}

func triangle(x Variable, diagonal int, lower bool, opts []Option) Variable {
	l := start("tril_triu", opts, nil, x)
	return l.result(l.op("tril_triu", In{"X": {x}}, Attrs{"diagonal": diagonal, "lower": lower}, "Out"))
}

// FillLike is a variable with the shape of x, filled with one value.
//
// Options: Name. Op: fill_any_like.
func FillLike(x Variable, value float64, opts ...Option) Variable {
	l := start("fill_any_like", opts, nil, x)
	return l.result(l.op("fill_any_like", In{"X": {x}}, Attrs{"value": value}, "Out"))
}

// IndexPut writes values to elements of a copy of x. indices has an int32 or int64 variable for each of the first axes of x, which repeat where their extents are 1, or one mask of
// bool. values has the dims of all indices together, or one row for each element of the mask that is true, and the axes of x that have no index; it repeats where extents are 1.
// With add the values are added.
//
// Options: Name. Op: index_put.
func IndexPut(x Variable, indices []Variable, values Variable, add bool, opts ...Option) Variable {
	l := start("index_put", opts, nil, slices.Concat([]Variable{x, values}, indices)...)
	return l.result(l.op("index_put", In{"x": {x}, "indices": indices, "value": {values}}, Attrs{"accumulate": add}, "out"))
}
