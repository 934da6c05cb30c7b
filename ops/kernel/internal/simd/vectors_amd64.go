//go:build !purego

package simd

var vectors = Vectors{
	Add:                 addVectors,
	AddScalar:           addScalar,
	Sub:                 subVectors,
	SubScalar:           subScalar,
	Mul:                 mulVectors,
	MulScalar:           mulScalar,
	Div:                 divVectors,
	DivScalar:           divScalar,
	Max:                 maxVectors,
	MaxScalar:           maxScalar,
	Min:                 minVectors,
	MinScalar:           minScalar,
	MulAdd:              mulAdd,
	Axpy:                axpy,
	ScaleBias:           scaleBias,
	BiasScale:           biasScale,
	Normalise:           normalise,
	Relu:                relu,
	ReluGrad:            reluGrad,
	SigmoidGrad:         sigmoidGrad,
	TanhGrad:            tanhGrad,
	SquareGrad:          squareGrad,
	SoftmaxGrad:         softmaxGrad,
	Exp:                 exp,
	Sigmoid:             sigmoid,
	Tanh:                tanh,
	Momentum:            momentum,
	Nesterov:            nesterov,
	Adagrad:             adagrad,
	Adam:                adam,
	LSTMForward:         lstmForward,
	LSTMBackward:        lstmBackward,
	Sum:                 sum,
	SumProduct:          sumProduct,
	SumSquaredDeviation: sumSquaredDeviation,
	SumCentredProduct:   sumCentredProduct,
	SumRows:             sumRows,
	Largest:             largest,
	GatherRows:          gatherRows,
	ScatterRows:         scatterRows,
	SGDRows:             sgdRows,
	CopyPatches:         copyPatches,
	AddPatches:          addPatches,
	MaxPool2x2:          maxPool2x2,
	MaxPool2x2Grad:      maxPool2x2Grad,
	ToFloat16:           float32ToFloat16,
	FromFloat16:         float16ToFloat32,
	FromBFloat16:        bfloat16ToFloat32,
	ToBFloat16:          float32ToBFloat16,
}

//go:noescape
func addVectors(out, x, y []float32)

//go:noescape
func addScalar(out, x []float32, y float32)

//go:noescape
func subVectors(out, x, y []float32)

//go:noescape
func subScalar(out, x []float32, y float32)

//go:noescape
func mulVectors(out, x, y []float32)

//go:noescape
func mulScalar(out, x []float32, y float32)

//go:noescape
func divVectors(out, x, y []float32)

//go:noescape
func divScalar(out, x []float32, y float32)

//go:noescape
func maxVectors(out, x, y []float32)

//go:noescape
func maxScalar(out, x []float32, y float32)

//go:noescape
func minVectors(out, x, y []float32)

//go:noescape
func minScalar(out, x []float32, y float32)

//go:noescape
func mulAdd(out, x, y []float32)

//go:noescape
func axpy(out, x []float32, weight float32)

//go:noescape
func scaleBias(out, x []float32, scale, bias float32)

//go:noescape
func biasScale(out, x []float32, scale, bias float32)

//go:noescape
func normalise(out, x []float32, center, factor, bias float32)

//go:noescape
func relu(out, x []float32)

//go:noescape
func reluGrad(dx, out, dout []float32)

//go:noescape
func sigmoidGrad(dx, out, dout []float32)

//go:noescape
func tanhGrad(dx, out, dout []float32)

//go:noescape
func squareGrad(dx, x, dout []float32)

//go:noescape
func softmaxGrad(dx, out, dout []float32, dot float32)

//go:noescape
func exp(out, x []float32, shift float32)

//go:noescape
func sigmoid(out, x []float32)

//go:noescape
func tanh(out, x []float32)

//go:noescape
func momentum(param, velocity, grad []float32, lr, mu float32)

//go:noescape
func nesterov(param, velocity, grad []float32, lr, mu float32)

//go:noescape
func adagrad(param, moment, grad []float32, lr, epsilon float32)

//go:noescape
func adam(param, moment1, moment2, grad []float32, rate, beta1, rest1, beta2, rest2, epsilon float32)

//go:noescape
func lstmForward(gates, cell, active, hidden, previous, row, bias, sums *float32, width int)

//go:noescape
func lstmBackward(dgates, dcell, dhidden, gates, active, previous *float32, width int)

//go:noescape
func sum(x []float32, center float64) float64

//go:noescape
func sumProduct(x, y []float32, center float64) float64

//go:noescape
func sumSquaredDeviation(x []float32, center float64) float64

//go:noescape
func sumCentredProduct(x, y []float32, center float64) float64

//go:noescape
func sumRows(out, x []float32, rows int)

//go:noescape
func largest(x []float32) float32

//go:noescape
func float32ToFloat16(out []uint16, x []float32)

//go:noescape
func float16ToFloat32(out []float32, x []uint16)

//go:noescape
func bfloat16ToFloat32(out []float32, x []uint16)

//go:noescape
func float32ToBFloat16(out []uint16, x []float32)

//go:noescape
func gatherRows(out, table []float32, rows []int64, width, height int) int

//go:noescape
func scatterRows(table, from []float32, rows []int64, width, height int) int

//go:noescape
func sgdRows(table, grad []float32, rows []int64, width, height int, lr float32) int

//go:noescape
func copyPatches(columns, image []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)

//go:noescape
func addPatches(image, columns []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)

//go:noescape
func maxPool2x2(out, x []float32, rows, width, step int)

//go:noescape
func maxPool2x2Grad(dx, x, dout []float32, rows, width, step int)
