package layers

// Squeeze removes axes of extent 1. Negative axes count from the end. Without axes it removes every axis of extent 1.
//
// Options: Axes, Name. Op: squeeze2.
func Squeeze(x Variable, opts ...Option) Variable {
	l := start("squeeze2", opts, []string{"Axes"}, x)
	return l.viewed("squeeze2", x, Attrs{"axes": l.axes})
}

// Unsqueeze inserts axes of extent 1: each number says where an axis of the result stands. Negative numbers count from the end.
//
// Options: Name. Op: unsqueeze2.
func Unsqueeze(x Variable, axes []int, opts ...Option) Variable {
	return start("unsqueeze2", opts, nil, x).viewed("unsqueeze2", x, Attrs{"axes": axes})
}

// Flatten makes a matrix of x: the first axes become its rows, and the others its columns. NumFlattenDims says how many axes are rows; the default is 1,
// the batch.
//
// Options: NumFlattenDims, Name. Op: flatten2.
func Flatten(x Variable, opts ...Option) Variable {
	l := start("flatten2", opts, []string{"NumFlattenDims"}, x)
	return l.viewed("flatten2", x, Attrs{"axis": l.flatten})
}

// viewed appends an op that has an output XShape for its gradient.
func (l *layer) viewed(opType string, x Variable, attrs Attrs) Variable {
	return l.result(l.multi(opType, In{"X": {x}}, attrs, "Out", "XShape")[0])
}
