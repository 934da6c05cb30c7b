package layers

// TransposeX swaps the last two axes of the first operand of MatMul.
func TransposeX() Option { return Option{"TransposeX", func(s *settings) { s.transposeX = true }} }

// TransposeY swaps the last two axes of the second operand of MatMul.
func TransposeY() Option { return Option{"TransposeY", func(s *settings) { s.transposeY = true }} }

// Alpha multiplies the result of MatMul. The default is 1.
func Alpha(factor float64) Option { return Option{"Alpha", func(s *settings) { s.alpha = factor }} }

// MatMul is the matrix product of the last two axes of x and y; leading axes are batches.
//
// Options: TransposeX, TransposeY, Alpha, Name. Op: matmul.
func MatMul(x, y Variable, opts ...Option) Variable {
	l := start("matmul", opts, []string{"TransposeX", "TransposeY", "Alpha"}, x, y)
	return l.result(l.op("matmul", In{"X": {x}, "Y": {y}}, Attrs{"transpose_X": l.transposeX, "transpose_Y": l.transposeY, "alpha": l.alpha}, "Out"))
}
