package layers

// Slice cuts a part out of x: on each of axes, the positions from starts to ends, exclusive. Negative numbers count from the end, and an end beyond the
// axis means its end.
//
// Options: Name. Op: slice.
func Slice(x Variable, axes []int, starts, ends []int64, opts ...Option) Variable {
	l := start("slice", opts, nil, x)
	return l.result(l.op("slice", In{"Input": {x}}, Attrs{"axes": axes, "starts": starts, "ends": ends}, "Out"))
}

// StridedSlice is Slice that takes every strides-th position of each of axes. A negative stride goes backwards, and then an end of -1 is the place before
// the first position.
//
// Options: Name. Op: strided_slice.
func StridedSlice(x Variable, axes []int, starts, ends, strides []int64, opts ...Option) Variable {
	l := start("strided_slice", opts, nil, x)
	return l.result(l.op("strided_slice", In{"Input": {x}}, Attrs{"axes": axes, "starts": starts, "ends": ends, "strides": strides}, "Out"))
}

// Shape is the dims of x as int32 numbers, one for each axis. A job on several trainers refuses a loss that depends on it, because each has a part of the
// batch.
//
// Options: Name. Op: shape.
func Shape(x Variable, opts ...Option) Variable {
	l := start("shape", opts, nil, x)
	return l.result(l.op("shape", In{"Input": {x}}, nil, "Out"))
}

// Size is the number of elements of x, int64 [1].
//
// Options: Name. Op: size.
func Size(x Variable, opts ...Option) Variable {
	l := start("size", opts, nil, x)
	return l.result(l.op("size", In{"Input": {x}}, nil, "Out"))
}
