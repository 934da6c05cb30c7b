package layers

// The elementwise layers combine two variables element by element. Where the dims differ, y is stretched over x: the
// axes of y match those of x that start at Axis (default: the last ones), and every other axis repeats y.

// Add is x + y.
//
// Options: Axis, Act, Name.
func Add(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_add", x, y, opts) }

// Sub is x - y. Options as Add.
func Sub(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_sub", x, y, opts) }

// Mul is x * y, element by element. Options as Add.
func Mul(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_mul", x, y, opts) }

// Div is x / y. Options as Add.
func Div(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_div", x, y, opts) }

// Max is the larger of x and y. Options as Add.
func Max(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_max", x, y, opts) }

// Min is the smaller of x and y. Options as Add.
func Min(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_min", x, y, opts) }

// Pow is x to the power of y. Options as Add.
func Pow(x, y Variable, opts ...Option) Variable { return elementwise("elementwise_pow", x, y, opts) }

func elementwise(opType string, x, y Variable, opts []Option) Variable {
	l := start(opType, opts, []string{"Axis", "Act"}, x, y)
	return l.result(l.activate(l.op(opType, In{"X": {x}, "Y": {y}}, Attrs{"axis": l.axis}, "Out")))
}

// LessThan is x < y as booleans, for x and y of the same dims. No gradient flows through it.
func LessThan(x, y Variable, opts ...Option) Variable {
	l := start("less_than", opts, nil, x, y)
	return l.result(l.op("less_than", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// Sums adds variables of one shape.
func Sums(xs []Variable, opts ...Option) Variable {
	l := start("sum", opts, nil, xs...)
	return l.result(l.op("sum", In{"X": xs}, nil, "Out"))
}
