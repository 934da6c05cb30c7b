package layers

import "github.com/edl-go/edl/fault"

// PaddingStart sets how far from a row its window in SequenceConv begins: -1 is the row before. The default is minus half the size of the window.
func PaddingStart(rows int) Option {
	return Option{"PaddingStart", func(s *settings) { s.paddingStart = &rows }}
}

// SequenceConv convolves each sequence of x, [rows, width], along its rows: the result of a row is a product of size rows around it, one beside the other. Rows
// beyond the ends of the sequence count as zeros. The result is [rows, filters]. Parameters: w_0 [size*width, filters] and b_0 [filters].
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, PaddingStart, Name. Ops: sequence_conv, elementwise_add, activation.
func SequenceConv(x Variable, filters int64, size int, opts ...Option) Variable {
	l := start("sequence_conv", opts, []string{"Act", "Param", "Bias", "NoBias", "PaddingStart"}, x)
	if !l.failed && (filters < 1 || size < 1 || x.rank() != 2) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d filters of size %d on %v", filters, size, x),
			fault.Want("at least 1 each, on rows of numbers")))
	}
	if l.failed {
		return l.fail()
	}
	begin := -(size / 2)
	if l.paddingStart != nil {
		begin = *l.paddingStart
	}
	w := l.parameter("w", l.param, x.DType(), []int64{int64(size) * x.v.Dims[1], filters}, Xavier())
	out := l.op("sequence_conv", In{"X": {x}, "Filter": {w}}, Attrs{"contextLength": size, "contextStart": begin, "contextStride": 1}, "Out")
	return l.result(l.activate(l.addBias(out, 1)))
}

// SequenceSoftmax is the softmax over the rows of each sequence of x, [rows, 1]. Options: Name. Op: sequence_softmax.
func SequenceSoftmax(x Variable, opts ...Option) Variable {
	l := start("sequence_softmax", opts, nil, x)
	return l.result(l.op("sequence_softmax", In{"X": {x}}, nil, "Out"))
}

// SequenceConvPool is SequenceConv followed by SequencePool of a kind. The options are those of SequenceConv. Fluid's sequence_conv_pool has the activation sigmoid
// where nothing else is said; here it has none.
func SequenceConvPool(x Variable, filters int64, size int, kind string, opts ...Option) Variable {
	return SequencePool(SequenceConv(x, filters, size, opts...), kind)
}
