package simd

// Vectors are the loops over float32 arrays. Every array of a call is at least as long as the first. An element of a result
// depends on the elements at its place alone, with the same bits at every place and length, so a call may be cut anywhere.
// Unless said, nothing is fused and portable Go gives the same bits. Results may be operands.
type Vectors struct {
	Add, Sub, Mul, Div, Max, Min                                     func(out, x, y []float32) // Max and Min are Go's
	AddScalar, SubScalar, MulScalar, DivScalar, MaxScalar, MinScalar func(out, x []float32, y float32)

	MulAdd    func(out, x, y []float32)                            // out += x*y
	Axpy      func(out, x []float32, weight float32)               // out += x*weight
	ScaleBias func(out, x []float32, scale, bias float32)          // out = x*scale + bias
	BiasScale func(out, x []float32, scale, bias float32)          // out = (x+bias)*scale
	Normalise func(out, x []float32, center, factor, bias float32) // out = (x-center)*factor + bias

	// NormaliseGrad computes out = ((g-meanGrad) - ((x-center)*factor)*meanProduct)*scale.
	NormaliseGrad func(out, x, g []float32, center, factor, meanGrad, meanProduct, scale float32)

	Relu        func(out, x []float32)
	ReluGrad    func(dx, out, dout []float32)              // dx = dout where out > 0, else 0
	SigmoidGrad func(dx, out, dout []float32)              // dx = dout*out*(1-out)
	TanhGrad    func(dx, out, dout []float32)              // dx = dout*(1-out*out)
	SquareGrad  func(dx, x, dout []float32)                // dx = 2*dout*x
	SoftmaxGrad func(dx, out, dout []float32, dot float32) // dx = out*(dout-dot)

	// These are polynomials with fused steps, within 2 units in the last place of the exact result for every float32.
	Exp     func(out, x []float32, shift float32) // out = exp(x-shift), where x-shift is rounded
	Sigmoid func(out, x []float32)
	Tanh    func(out, x []float32)

	Momentum func(param, velocity, grad []float32, lr, mu float32)
	Nesterov func(param, velocity, grad []float32, lr, mu float32)
	Adagrad  func(param, moment, grad []float32, lr, epsilon float32)
	Adam     func(param, moment1, moment2, grad []float32, rate, beta1, rest1, beta2, rest2, epsilon float32) // rest is 1-beta

	// These are a step of long short-term memory and its gradient for one sequence, with sigmoid gates, tanh for candidate and cell, and no peepholes. A
	// row has four parts of width elements: candidate, input, forget and output gate; width is a multiple of 8, at least 8. The bits are those of the
	// loops above one by one.
	LSTMForward  func(gates, cell, active, hidden, previous, row, bias, sums *float32, width int) // gates from (row+bias)+sums; gates may be row
	LSTMBackward func(dgates, dcell, dhidden, gates, active, previous *float32, width int)        // dcell becomes that of previous

	// The sums add in float64, element i in lane i mod 4, and then (lane 0 + lane 1) + (lane 2 + lane 3).
	Sum                 func(x []float32, center float64) float64    // of x; center is not used
	SumProduct          func(x, y []float32, center float64) float64 // of x*y; center is not used
	SumSquaredDeviation func(x []float32, center float64) float64    // of (x-center)^2
	SumCentredProduct   func(x, y []float32, center float64) float64 // of x*(y-center)
	// SumFour returns four sums with the bits of Sum: of x, and of three arrays as long that begin step, 2*step and 3*step elements later.
	SumFour func(x []float32, step int) (a, b, c, d float64)
	// These do so with the bits of SumSquaredDeviation and SumCentredProduct; each sum has a center of its own.
	SumFourSquaredDeviations func(x []float32, step int, centers *[4]float64) (a, b, c, d float64)
	SumFourCentredProducts   func(x, y []float32, step int, centers *[4]float64) (a, b, c, d float64)

	SumRows func(out, x []float32, rows int) // out += rows rows of x in turn, which are as long as out

	Largest func(x []float32) float32 // Go's max; len(x) is a multiple of 8, at least 8

	// These go over rows of a table, width long, at least 1, of which it has height: they copy row rows[i] to row i of out, copy row i of from
	// to it, or subtract lr*grad from it, where the product is rounded. They stop at a row number outside of the table and return how many rows
	// they did. The other array holds as many rows as there are numbers.
	GatherRows  func(out, table []float32, rows []int64, width, height int) int
	ScatterRows func(table, from []float32, rows []int64, width, height int) int
	SGDRows     func(table, grad []float32, rows []int64, width, height int, lr float32) int

	// These go between an image and the matrix of its patches, which holds windows one after the other: rows rows of an image, width long and step
	// apart. CopyPatches overwrites columns with a window for each row and column of a filter, which lies ky*rowStep + kx*columnStep after the start of
	// image. AddWindows adds a window to each of so many channels. Channels are plane elements apart in image, and perChannel in columns. The last 7
	// elements of columns (when copying) and of image are not part of any window: vectors may run over into them. Every number is at least 1.
	CopyPatches func(columns, image []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)
	AddWindows  func(image, columns []float32, channels, plane, perChannel, rows, width, step int)

	// CopyPatchRows overwrites patches with the windows of an image: rows lines of width windows. Lines begin step elements apart, the windows of a line
	// stride elements apart. A window has kernelHeight rows, rowStep apart, of kernelWidth elements, of each of so many channels, plane elements apart.
	// The last 7 elements of patches and of image are not part of any window. Every number is at least 1.
	CopyPatchRows func(patches, image []float32, channels, plane, kernelHeight, kernelWidth, rowStep, rows, width, step, stride int)

	// These are the transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3).
	Winograd2x2, Winograd4x4 WinogradTransforms

	// These pool windows of 2 x 2 that neither overlap nor leave gaps: rows rows of width outputs, which is at least 4,
	// from rows that are step apart. The first of equal elements is the largest, a NaN larger than any number.
	MaxPool2x2     func(out, x []float32, rows, width, step int)
	MaxPool2x2Grad func(dx, x, dout []float32, rows, width, step int) // overwrites the windows of dx

	// These convert as many elements as fill vectors of eight.
	ToFloat16, ToBFloat16     func(out []uint16, x []float32)
	FromFloat16, FromBFloat16 func(out []float32, x []uint16)
}

// WinogradTransforms are those of tiles of inputs, of outputs and their gradients, and of filters and their gradients.
type WinogradTransforms struct {
	Input, Output, OutputGrad, Filter, FilterGrad WinogradTransform
}

// A WinogradTransform computes out = L*in*L' for a run of tiles. Element [i, j] of a tile is 8*vectors numbers, which begin i*Row + j*Column elements after
// the start of the tile. Tiles and vectors are at least 1; distances are in elements, and may be negative. The order of the operations is that of package
// kernel (winogradLine).
type WinogradTransform func(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

// Float32 returns the loops over float32, or nil at level None.
func Float32() *Vectors {
	if current == None {
		return nil
	}
	return &vectors
}
