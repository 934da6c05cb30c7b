package layers

// IsFinite is whether all elements of x are neither NaN nor infinite: bool [1].
//
// Options: Name. Op: isfinite.
func IsFinite(x Variable, opts ...Option) Variable { return unary("isfinite", x, opts) }

// HasInf is whether an element of x is infinite: bool [1].
//
// Options: Name. Op: isinf.
func HasInf(x Variable, opts ...Option) Variable { return unary("isinf", x, opts) }

// HasNaN is whether an element of x is NaN: bool [1].
//
// Options: Name. Op: isnan.
func HasNaN(x Variable, opts ...Option) Variable { return unary("isnan", x, opts) }

// AllClose is whether |x - y| <= absolute + relative*|y| for all elements: bool [1]. Fluid's defaults are 1e-5 for relative and 1e-8 for absolute.
//
// Options: Name. Op: allclose.
func AllClose(x, y Variable, relative, absolute float64, opts ...Option) Variable {
	l := start("allclose", opts, nil, x, y)
	return l.result(l.op("allclose", In{"Input": {x}, "Other": {y}}, Attrs{"rtol": relative, "atol": absolute}, "Out"))
}

// BitwiseAnd has the bits that both x and y have, which are integers or booleans. Options as LessThan.
func BitwiseAnd(x, y Variable, opts ...Option) Variable { return pair("bitwise_and", x, y, opts) }

// BitwiseOr has the bits that x or y has. Options as LessThan.
func BitwiseOr(x, y Variable, opts ...Option) Variable { return pair("bitwise_or", x, y, opts) }

// BitwiseXor has the bits that one of x and y has. Options as LessThan.
func BitwiseXor(x, y Variable, opts ...Option) Variable { return pair("bitwise_xor", x, y, opts) }

// BitwiseNot has the bits that x does not have: of an integer -x - 1, of a boolean the other one.
//
// Options: Name. Op: bitwise_not.
func BitwiseNot(x Variable, opts ...Option) Variable { return unary("bitwise_not", x, opts) }
