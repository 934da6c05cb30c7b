package layers

import "slices"

// Axes sets the axes that a reduction removes, counted from the end when negative. By default all are, and the result is [1].
func Axes(axes ...int) Option {
	return Option{"Axes", func(s *settings) { s.axes = slices.Clone(axes) }}
}

// KeepDims leaves reduced axes in the result with extent 1.
func KeepDims() Option { return Option{"KeepDims", func(s *settings) { s.keepDims = true }} }

// ReduceSum adds the elements of x along axes.
//
// Options: Axes, KeepDims, Name.
func ReduceSum(x Variable, opts ...Option) Variable { return reduce("reduce_sum", x, opts) }

// ReduceMean averages the elements of x along axes. Options as ReduceSum.
func ReduceMean(x Variable, opts ...Option) Variable { return reduce("reduce_mean", x, opts) }

// ReduceMax takes the largest element of x along axes. Options as ReduceSum.
func ReduceMax(x Variable, opts ...Option) Variable { return reduce("reduce_max", x, opts) }

func reduce(opType string, x Variable, opts []Option) Variable {
	l := start(opType, opts, []string{"Axes", "KeepDims"}, x)
	attrs := Attrs{"reduce_all": len(l.axes) == 0, "keep_dim": l.keepDims}
	if len(l.axes) > 0 {
		attrs["dim"] = l.axes
	}
	return l.result(l.op(opType, In{"X": {x}}, attrs, "Out"))
}
