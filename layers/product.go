package layers

// BilinearTensorProduct multiplies two vectors by size matrices between them, for each row of x [batch, m] and y [batch, n]: act(x·W_s·y + b) with W [size, m, n]
// and b [1, size].
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, Name. Ops: bilinear_tensor_product, activation.
func BilinearTensorProduct(x, y Variable, size int64, opts ...Option) Variable {
	l := start("bilinear_tensor_product", opts, []string{"Act", "Param", "Bias", "NoBias"}, x, y)
	if l.failed || x.rank() != 2 || y.rank() != 2 {
		return l.result(l.op("bilinear_tensor_product", In{"X": {x}, "Y": {y}}, nil, "Out"))
	}
	in := In{"X": {x}, "Y": {y}, "Weight": {l.parameter("w", l.param, x.DType(), []int64{size, x.v.Dims[1], y.v.Dims[1]}, Xavier())}}
	if !l.noBias {
		in["Bias"] = []Variable{l.parameter("b", l.bias, x.DType(), []int64{1, size}, Constant(0))}
	}
	return l.result(l.activate(l.op("bilinear_tensor_product", in, nil, "Out")))
}

// FSPMatrix says how channels of two feature maps [batch, c, height, width] and [batch, d, height, width] go together: [batch, c, d], the mean of their products over all
// places.
//
// Options: Name. Op: fsp.
func FSPMatrix(x, y Variable, opts ...Option) Variable {
	l := start("fsp_matrix", opts, nil, x, y)
	return l.result(l.op("fsp", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// ConvShift is the circular convolution of each row of x [batch, m] with a row of y [batch, n], where n is odd and no larger than m.
//
// Options: Name. Op: conv_shift.
func ConvShift(x, y Variable, opts ...Option) Variable {
	l := start("conv_shift", opts, nil, x, y)
	return l.result(l.op("conv_shift", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// Einsum sums products of one or two variables over axes, as equation says: "bij,bkj->bik" multiplies rows of the first by rows of the second. A letter is an axis, and "..."
// stands for the axes without a letter. Without "->" the result has the letters that occur once, in the order of the alphabet.
//
// Options: Name. Op: einsum.
func Einsum(equation string, operands []Variable, opts ...Option) Variable {
	l := start("einsum", opts, nil, operands...)
	return l.result(l.op("einsum", In{"Operands": operands}, Attrs{"equation": equation}, "Out"))
}
