package layers

import "github.com/edl-go/edl/fault"

// RefLevel sets which LoD level of y SequenceExpand looks at. The default, -1, is the innermost.
func RefLevel(level int) Option { return Option{"RefLevel", func(s *settings) { s.refLevel = level }} }

// SequenceExpand repeats each sequence of x, or each row if x has no LoD, as often as the sequence of y at its place has rows.
//
// Options: RefLevel, Name. Op: sequence_expand.
func SequenceExpand(x, y Variable, opts ...Option) Variable {
	l := start("sequence_expand", opts, []string{"RefLevel"}, x, y)
	return l.result(l.op("sequence_expand", In{"X": {x}, "Y": {y}}, Attrs{"ref_level": l.refLevel}, "Out"))
}

// SequenceExpandAs repeats each row of x as often as the sequence of y at its place has rows. Options: Name. Op: sequence_expand_as.
func SequenceExpandAs(x, y Variable, opts ...Option) Variable {
	l := start("sequence_expand_as", opts, nil, x, y)
	return l.result(l.op("sequence_expand_as", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// SequenceConcat joins sequences: sequence i of the result is the rows of sequence i of each of xs, one after another. Options: Name. Op: sequence_concat.
func SequenceConcat(xs []Variable, opts ...Option) Variable {
	l := start("sequence_concat", opts, nil, xs...)
	return l.result(l.op("sequence_concat", In{"X": xs}, nil, "Out"))
}

// SequenceSlice cuts length rows out of each sequence of x, from row offset of it on. Both are int64 [sequences, 1].
//
// Options: Name. Op: sequence_slice.
func SequenceSlice(x, offset, length Variable, opts ...Option) Variable {
	l := start("sequence_slice", opts, nil, x, offset, length)
	return l.result(l.op("sequence_slice", In{"X": {x}, "Offset": {offset}, "Length": {length}}, nil, "Out"))
}

// SequenceReshape divides the elements of each sequence into rows of another width. Options: Name. Op: sequence_reshape.
func SequenceReshape(x Variable, width int, opts ...Option) Variable {
	l := start("sequence_reshape", opts, nil, x)
	return l.result(l.op("sequence_reshape", In{"X": {x}}, Attrs{"new_dim": width}, "Out"))
}

// SequenceErase leaves out the rows of x, int64 [rows, 1], that are one of tokens. Options: Name. Op: sequence_erase.
func SequenceErase(x Variable, tokens []int, opts ...Option) Variable {
	l := start("sequence_erase", opts, nil, x)
	return l.result(l.op("sequence_erase", In{"X": {x}}, Attrs{"tokens": tokens}, "Out"))
}

// SequenceEnumerate makes a window of each row of x, int64 [rows, 1]: the numbers of size rows from it on, pad beyond the end of the sequence.
//
// Options: Name. Op: sequence_enumerate.
func SequenceEnumerate(x Variable, size, pad int, opts ...Option) Variable {
	l := start("sequence_enumerate", opts, nil, x)
	return l.result(l.op("sequence_enumerate", In{"X": {x}}, Attrs{"win_size": size, "pad_value": pad}, "Out"))
}

// SequenceReverse turns the rows of each sequence around. Options: Name. Op: sequence_reverse.
func SequenceReverse(x Variable, opts ...Option) Variable {
	l := start("sequence_reverse", opts, nil, x)
	return l.result(l.op("sequence_reverse", In{"X": {x}}, nil, "Y"))
}

// SequenceScatter adds updates, [rows, 1], to single elements of x, [sequences, columns]: that of row j of sequence i to column ids[j] of x[i]. ids are integers
// [rows, 1] in the sequences of updates.
//
// Options: Name. Op: sequence_scatter.
func SequenceScatter(x, ids, updates Variable, opts ...Option) Variable {
	l := start("sequence_scatter", opts, nil, x, ids, updates)
	return l.result(l.op("sequence_scatter", In{"X": {x}, "Ids": {ids}, "Updates": {updates}}, nil, "Out"))
}

// PaddedLength sets how many rows sequences have after SequencePad. By default it is the length of the longest of the batch.
func PaddedLength(rows int) Option {
	return Option{"PaddedLength", func(s *settings) { s.paddedLength = rows }}
}

// SequencePad makes sequences equally long: pad, one number or a row, follows the rows of each. padded is [sequences, length, ...], and lengths, int64
// [sequences], says how many rows each had.
//
// Options: PaddedLength, Name (of padded). Op: sequence_pad.
func SequencePad(x, pad Variable, opts ...Option) (padded, lengths Variable) {
	l := start("sequence_pad", opts, []string{"PaddedLength"}, x, pad)
	out := l.multi("sequence_pad", In{"X": {x}, "PadValue": {pad}}, Attrs{"padded_length": l.paddedLength}, "Out", "Length")
	return l.result(out[0]), out[1]
}

// SequenceUnpad makes sequences of the first lengths rows of each x[i]. lengths is int64 [sequences], such as SequencePad returns.
//
// Options: Name. Op: sequence_unpad.
func SequenceUnpad(x, lengths Variable, opts ...Option) Variable {
	l := start("sequence_unpad", opts, nil, x, lengths)
	return l.result(l.op("sequence_unpad", In{"X": {x}, "Length": {lengths}}, nil, "Out"))
}

// MaxLength sets how many places SequenceMask has. By default they are as many as the largest length of the batch.
func MaxLength(places int) Option {
	return Option{"MaxLength", func(s *settings) { s.maxLength = places }}
}

// SequenceMask says which places of padded sequences are within: 1 in the first lengths places of a row, 0 in the others. The element type is that of option DType.
//
// Options: MaxLength, DType (default float32), Name. Op: sequence_mask.
func SequenceMask(lengths Variable, opts ...Option) Variable {
	l := start("sequence_mask", opts, []string{"MaxLength", "DType"}, lengths)
	return l.result(l.op("sequence_mask", In{"X": {lengths}}, Attrs{"maxlen": l.maxLength, "out_dtype": int(l.dtype)}, "Y"))
}

// LoDReset gives the rows of x the sequences of y. Options: Name. Op: lod_reset.
func LoDReset(x, y Variable, opts ...Option) Variable {
	l := start("lod_reset", opts, nil, x, y)
	return l.result(l.op("lod_reset", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// LoDResetTo makes sequences of the rows of x that begin at these offsets. The last one is the number of rows. Options: Name. Op: lod_reset.
func LoDResetTo(x Variable, offsets []int, opts ...Option) Variable {
	l := start("lod_reset", opts, nil, x)
	return l.result(l.op("lod_reset", In{"X": {x}}, Attrs{"target_lod": offsets}, "Out"))
}

// RowConv convolves each column of a sequence with a window of its own over the row and ahead rows after it. Parameter: w_0 [ahead+1, columns].
//
// Options: Act, Param (default Xavier), Name. Ops: row_conv, activation.
func RowConv(x Variable, ahead int, opts ...Option) Variable {
	l := start("row_conv", opts, []string{"Act", "Param"}, x)
	if !l.failed && (ahead < 0 || x.rank() < 2) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d rows ahead in %v", ahead, x), fault.Want("at least 0, in rows of numbers")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{int64(ahead) + 1, x.v.Dims[x.rank()-1]}, Xavier())
	return l.result(l.activate(l.op("row_conv", In{"X": {x}, "Filter": {w}}, nil, "Out")))
}

// AddPositionEncoding is alpha*x plus beta times waves by which a row tells its place in the sequence. x is [rows, columns] with a LoD, or [batch, rows, columns].
//
// Options: Name. Op: add_position_encoding.
func AddPositionEncoding(x Variable, alpha, beta float64, opts ...Option) Variable {
	l := start("add_position_encoding", opts, nil, x)
	return l.result(l.op("add_position_encoding", In{"X": {x}}, Attrs{"alpha": alpha, "beta": beta}, "Out"))
}

// Im2Sequence makes a sequence of each image of x, [images, channels, height, width]: the windows of an image row by row, each as one row.
//
// Options: Stride (default 1), PaddingSides, Name. Op: im2sequence.
func Im2Sequence(x Variable, height, width int, opts ...Option) Variable {
	l := start("im2sequence", opts, []string{"Stride", "PaddingSides"}, x)
	sides := []int64{0, 0, 0, 0}
	if l.sides != nil { // above, below, left, right
		sides = []int64{l.sides[0], l.sides[2], l.sides[1], l.sides[3]}
	}
	return l.result(l.op("im2sequence", In{"X": {x}}, Attrs{"kernels": []int{height, width}, "strides": l.stride, "paddings": sides}, "Out"))
}
