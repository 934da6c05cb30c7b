package layers

// Comparisons give booleans. They broadcast as Add does. No gradient flows through them.

// LessThan is x < y.
//
// Options: Axis, Name. Op: less_than.
func LessThan(x, y Variable, opts ...Option) Variable { return pair("less_than", x, y, opts) }

// LessEqual is x <= y. Options as LessThan.
func LessEqual(x, y Variable, opts ...Option) Variable { return pair("less_equal", x, y, opts) }

// GreaterThan is x > y. Options as LessThan.
func GreaterThan(x, y Variable, opts ...Option) Variable { return pair("greater_than", x, y, opts) }

// GreaterEqual is x >= y. Options as LessThan.
func GreaterEqual(x, y Variable, opts ...Option) Variable { return pair("greater_equal", x, y, opts) }

// EqualAll is whether x and y have the same dims and equal elements: bool [1].
//
// Options: Name. Op: equal_all.
func EqualAll(x, y Variable, opts ...Option) Variable {
	l := start("equal_all", opts, nil, x, y)
	return l.result(l.op("equal_all", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// Equal is x == y. Options as LessThan.
func Equal(x, y Variable, opts ...Option) Variable { return pair("equal", x, y, opts) }

// NotEqual is x != y. Options as LessThan.
func NotEqual(x, y Variable, opts ...Option) Variable { return pair("not_equal", x, y, opts) }

// LogicalAnd is true where booleans x and y are. Options as LessThan.
func LogicalAnd(x, y Variable, opts ...Option) Variable { return pair("logical_and", x, y, opts) }

// LogicalOr is true where one of the booleans x and y is. Options as LessThan.
func LogicalOr(x, y Variable, opts ...Option) Variable { return pair("logical_or", x, y, opts) }

// LogicalXor is true where exactly one of the booleans x and y is. Options as LessThan.
func LogicalXor(x, y Variable, opts ...Option) Variable { return pair("logical_xor", x, y, opts) }

// LogicalNot is true where the boolean x is false.
//
// Options: Name. Op: logical_not.
func LogicalNot(x Variable, opts ...Option) Variable { return unary("logical_not", x, opts) }

func pair(opType string, x, y Variable, opts []Option) Variable {
	l := start(opType, opts, []string{"Axis"}, x, y)
	return l.result(l.op(opType, In{"X": {x}, "Y": {y}}, Attrs{"axis": l.axis}, "Out"))
}

// BMM multiplies pairs of matrices: x is [b, m, k], y [b, k, n]. MatMul multiplies other batches.
//
// Options: Name. Op: bmm.
func BMM(x, y Variable, opts ...Option) Variable {
	l := start("bmm", opts, nil, x, y)
	return l.result(l.op("bmm", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// Dot has the inner product of each row of x with the row of y.
//
// Options: Name. Op: dot.
func Dot(x, y Variable, opts ...Option) Variable {
	l := start("dot", opts, nil, x, y)
	return l.result(l.op("dot", In{"X": {x}, "Y": {y}}, nil, "Out"))
}
