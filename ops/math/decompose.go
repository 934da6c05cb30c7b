package math

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file compute with the square matrices on the last two axes.

func init() {
	opkit.Register(ops.Def{
		Type:      "cholesky",
		Doc:       "The Cholesky factor of symmetric matrices: X = Out*transpose(Out) with a lower triangle Out. A matrix that is not positive definite is an error.",
		Inputs:    in("X", "float, the last two extents equal"),
		Outputs:   out("Out", "of the shape and type of X"),
		Attrs:     []ops.Attr{{Name: "upper", Doc: "whether Out is the upper triangle: X = transpose(Out)*Out", Default: false}},
		Infer:     inferSquare("X", "Out"),
		Cost:      opkit.PerElement(8),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindCholesky[float32], bindCholesky[float64]),
	}, opkit.Gradient{
		Doc: "dX is symmetric: it takes an element and its mirror image for one number (Murray 2016).", Outputs: []string{"Out"}, Wrt: []string{"X"},
		StandIn: map[string]string{"X": "Out"}, Cost: opkit.PerElement(16), Bind: opkit.BindFloats("Out", bindCholeskyGrad[float32], bindCholeskyGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:    "determinant",
		Doc:     "The determinants of matrices.",
		Inputs:  in("Input", "float, the last two extents equal"),
		Outputs: out("Out", "dims of Input without the last two; [1] if none is left"),
		Infer: func(s *ops.Shapes) error {
			x := s.In("Input")
			if err := isSquare(s, "Input"); err != nil {
				return err
			}
			dims := x.Dims[:len(x.Dims)-2]
			if len(dims) == 0 {
				dims = []int64{1}
			}
			s.Set("Out", x.DType, dims...)
			return nil
		},
		Cost:      opkit.PerElement(8),
		MixesRows: mixesMatrices("Input"),
		Bind:      opkit.BindFloats("Input", bindDeterminant[float32], bindDeterminant[float64]),
	}, opkit.Gradient{
		Doc: "dInput = dOut*Out*transpose(inverse(Input)). A matrix without an inverse is an error.", Inputs: []string{"Input"}, Outputs: []string{"Out"}, Wrt: []string{"Input"},
		Cost: opkit.PerElement(16), Bind: opkit.BindFloats("Input", bindDeterminantGrad[float32], bindDeterminantGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:    "slogdeterminant",
		Doc:     "The signs of the determinants of matrices, and the logarithms of their magnitudes: 0 and minus infinity for a matrix without an inverse.",
		Inputs:  in("Input", "float, the last two extents equal"),
		Outputs: out("Out", "[2, ...] with the dims of Input without the last two, [2, 1] if none is left: the signs, and then the logarithms"),
		Infer: func(s *ops.Shapes) error {
			x := s.In("Input")
			if err := isSquare(s, "Input"); err != nil {
				return err
			}
			dims := append([]int64{2}, x.Dims[:len(x.Dims)-2]...)
			if len(dims) == 1 {
				dims = append(dims, 1)
			}
			s.Set("Out", x.DType, dims...)
			return nil
		},
		Cost:      opkit.PerElement(8),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindFloats("Input", bindLogDeterminant[float32], bindLogDeterminant[float64]),
	}, opkit.Gradient{
		Doc: "dInput = transpose(inverse(Input)) times dOut of the logarithm. A matrix without an inverse is an error.", Inputs: []string{"Input"}, Wrt: []string{"Input"},
		Cost: opkit.PerElement(16), Bind: opkit.BindFloats("Input", bindLogDeterminantGrad[float32], bindLogDeterminantGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:      "matrix_power",
		Doc:       "The power n of matrices. Negative powers are those of the inverse, and a matrix that has none is an error.",
		Inputs:    in("X", "float, the last two extents equal"),
		Outputs:   out("Out", "of the shape and type of X"),
		Attrs:     []ops.Attr{{Name: "n", Doc: "the power, a whole number", Kind: int32(0)}},
		MixesRows: mixesMatrices("X"),
		Cost:      opkit.PerElement(16),
		Infer: func(s *ops.Shapes) error {
			if n := s.Int("n"); n < -mostPower || n > mostPower {
				return opkit.BadAttr(s, "n", "-%d to %d", mostPower, mostPower)
			}
			return inferSquare("X", "Out")(s)
		},
		Bind: opkit.BindFloats("X", bindPower[float32], bindPower[float64]),
	}, opkit.Gradient{
		Doc:    "dX = the sum over k < n of transpose(X)**k*dOut*transpose(X)**(n-1-k), and through the inverse for a negative power.",
		Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(32), Bind: opkit.BindFloats("X", bindPowerGrad[float32], bindPowerGrad[float64]),
	})
}

// mostPower bounds the time of matrix_power.
const mostPower = 1 << 10

func isSquare(s *ops.Shapes, slot string) error {
	if err := s.IsFloat(slot); err != nil {
		return err
	}
	dims := s.In(slot).Dims
	if rank := len(dims); rank < 2 || !opkit.Agree(dims[rank-1], dims[rank-2]) {
		return s.Errorf(slot, "square matrices on the last two axes")
	}
	return nil
}

func inferSquare(from, to string) func(*ops.Shapes) error {
	return func(s *ops.Shapes) error {
		s.Like(to, from)
		return isSquare(s, from)
	}
}

func mixesMatrices(slot string) opkit.Mixing {
	return func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In(slot).Dims) == 2 }
}

// matrixOf returns matrix i of a tensor.
func matrixOf[T tensor.Float](t *tensor.Tensor, i, n int) []T { return tensor.Data[T](t)[i*n*n:][:n*n] }

// singular is the error of a matrix that does not allow what an op computes.
func singular(op *ops.Binding, slot string, i int, lacks, want string) error {
	return fault.E(fault.InvalidArgument, fault.On(op.Op()), fault.Var(op.Op().In(slot)), fault.Gotf("matrix %d, which %s", i, lacks), fault.Want(want))
}

func bindCholesky[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, upper := b.In("X"), b.Out("Out"), b.Bool("upper")
	count, n := matrices(x)
	return b.Loops(ops.Loop{N: count, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			if !kernel.Cholesky(matrixOf[T](to, i, n), matrixOf[T](x, i, n), n, upper) {
				return singular(b, "X", i, "is not positive definite", "symmetric matrices that are")
			}
		}
		return nil
	}})
}

func bindCholeskyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	made, dout, dx, upper := b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Bool("upper")
	count, n := matrices(made)
	work := b.Scratch(tensor.Float64, b.Parts()*3*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			kernel.CholeskyGrad(matrixOf[T](dx, i, n), matrixOf[T](made, i, n), matrixOf[T](dout, i, n), ops.Part(work.Float64s(), part, 3*n*n), n, upper)
		}
		return nil
	}})
}

func bindDeterminant[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Input"), b.Out("Out")
	n := int(x.Dims()[len(x.Dims())-1])
	work := b.Scratch(tensor.Float64, b.Parts()*n*n)
	return b.Loops(ops.Loop{N: to.Len(), Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			tensor.Data[T](to)[i] = T(kernel.Determinant(matrixOf[T](x, i, n), ops.Part(work.Float64s(), part, n*n), n))
		}
		return nil
	}})
}

func bindLogDeterminant[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Input"), b.Out("Out")
	count, n := matrices(x)
	work := b.Scratch(tensor.Float64, b.Parts()*n*n)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			sign, log := kernel.LogDeterminant(matrixOf[T](x, i, n), ops.Part(work.Float64s(), part, n*n), n)
			tensor.Data[T](to)[i], tensor.Data[T](to)[count+i] = T(sign), T(log)
		}
		return nil
	}})
}

func bindDeterminantGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	made, dout := b.In("Out"), b.In("Out@GRAD")
	return bindByInverse[T](b, func(i, _ int) float64 { return float64(tensor.Data[T](dout)[i]) * float64(tensor.Data[T](made)[i]) })
}

func bindLogDeterminantGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout := b.In("Out@GRAD")
	return bindByInverse[T](b, func(i, count int) float64 { return float64(tensor.Data[T](dout)[count+i]) })
}

// bindByInverse gives each matrix of Input the gradient transpose(inverse(Input)) times a factor.
func bindByInverse[T tensor.Float](b *ops.Binding, of func(i, count int) float64) (ops.Kernel, error) {
	x, dx := b.In("Input"), b.Out("Input@GRAD")
	count, n := matrices(x)
	work := b.Scratch(tensor.Float64, b.Parts()*2*n*n)
	return b.Loops(ops.Loop{N: count, Whole: []string{"Out@GRAD"}, Run: func(part, from, till int) error {
		memory := ops.Part(work.Float64s(), part, 2*n*n)
		for i := from; i < till; i++ {
			to := matrixOf[T](dx, i, n)
			if !kernel.Invert(to, matrixOf[T](x, i, n), memory[:n*n], memory[n*n:], n) {
				return singular(b, "Input", i, "has no inverse", "matrices of full rank")
			}
			factor := of(i, count)
			inverse := memory[n*n:]
			for row := range n {
				for column := range n {
					to[row*n+column] = T(factor * inverse[column*n+row])
				}
			}
		}
		return nil
	}})
}

// base writes the matrix that matrix_power multiplies to m: x, or its inverse for a negative power. work has 2*n*n elements.
func base[T tensor.Float](m []float64, x []T, work []float64, n int, power int64) bool {
	for i, v := range x {
		m[i] = float64(v)
	}
	return power >= 0 || kernel.Invert(m, m, work[:n*n], work[n*n:], n)
}

func bindPower[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, power := b.In("X"), b.Out("Out"), b.Int("n")
	count, n := matrices(x)
	work := b.Scratch(tensor.Float64, b.Parts()*3*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, till int) error {
		memory := ops.Part(work.Float64s(), part, 3*n*n)
		m, product, next := memory[:n*n], memory[n*n:2*n*n], memory[2*n*n:]
		for i := from; i < till; i++ {
			if !base(m, matrixOf[T](x, i, n), memory[n*n:], n, power) {
				return singular(b, "X", i, "has no inverse", "matrices of full rank")
			}
			clear(product)
			for k := range n {
				product[k*n+k] = 1
			}
			for range max(power, -power) {
				kernel.Multiply(next, product, m, n, false, false)
				copy(product, next)
			}
			for k, v := range product {
				matrixOf[T](to, i, n)[k] = T(v)
			}
		}
		return nil
	}})
}

func bindPowerGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx, power := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Int("n")
	count, n := matrices(x)
	work := b.Scratch(tensor.Float64, b.Parts()*5*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, till int) error {
		memory := ops.Part(work.Float64s(), part, 5*n*n)
		m, left, sum, next, right := memory[:n*n], memory[n*n:2*n*n], memory[2*n*n:3*n*n], memory[3*n*n:4*n*n], memory[4*n*n:]
		for i := from; i < till; i++ {
			if !base(m, matrixOf[T](x, i, n), memory[n*n:3*n*n], n, power) {
				return singular(b, "X", i, "has no inverse", "matrices of full rank")
			}
			for k, v := range matrixOf[T](dout, i, n) {
				left[k] = float64(v)
			}
			// By Horner: sum = transpose(m)*sum + dOut*transpose(m)**k, for k from 0.
			clear(sum)
			for range max(power, -power) {
				kernel.Multiply(next, m, sum, n, true, false)
				for k := range sum {
					sum[k] = next[k] + left[k]
				}
				kernel.Multiply(next, left, m, n, false, true)
				copy(left, next)
			}
			if power < 0 { // through the inverse
				kernel.Multiply(next, m, sum, n, true, false)
				kernel.Multiply(right, next, m, n, false, true)
				for k, v := range right {
					sum[k] = -v
				}
			}
			for k, v := range sum {
				matrixOf[T](dx, i, n)[k] = T(v)
			}
		}
		return nil
	}})
}
