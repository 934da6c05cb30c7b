package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/bind"
	"github.com/edl-go/edl/ops/internal/infer"
	"github.com/edl-go/edl/ops/internal/pair"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

func init() {
	pair.Register(ops.Def{
		Type: "mul",
		Doc: "The product of two matrices: Out = X*Y. X is seen as a matrix whose rows are its first x_num_col_dims axes, " +
			"and Y as one whose rows are its first y_num_col_dims axes.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, m x k"}, {Name: "Y", Doc: "float, k x n"}},
		Outputs: out("Out", "dims X[:x_num_col_dims] + Y[y_num_col_dims:]"),
		Attrs: []ops.Attr{
			{Name: "x_num_col_dims", Doc: "axes of X that are rows, at least 1 and less than its rank", Default: int32(1)},
			{Name: "y_num_col_dims", Doc: "axes of Y that are rows, at least 1 and less than its rank", Default: int32(1)}},
		Infer: inferMul,
		Cost:  mulCost(2),
		Bind:  bind.Floats("X", bindMul[float32], bindMul[float64]),
	}, pair.Gradient{
		Doc:    "dX = dOut*transpose(Y), dY = transpose(X)*dOut.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   mulCost(4),
		Bind:   bind.Floats("X", bindMulGrad[float32], bindMulGrad[float64]),
	})
}

func inferMul(s *ops.Shapes) error {
	x, y := s.In("X").Dims, s.In("Y").Dims
	xAxes, yAxes := s.Int("x_num_col_dims"), s.Int("y_num_col_dims")
	if xAxes < 1 || xAxes >= int64(len(x)) {
		return infer.BadAttr(s, "x_num_col_dims", "at least 1 and less than the rank of X %v", x)
	}
	if yAxes < 1 || yAxes >= int64(len(y)) {
		return infer.BadAttr(s, "y_num_col_dims", "at least 1 and less than the rank of Y %v", y)
	}
	_, columns := infer.Matrix(x, int(xAxes))
	if rows, _ := infer.Matrix(y, int(yAxes)); !infer.Agree(columns, rows) {
		return s.Errorf("Y", "%d rows, as many as the matrix X %v has columns", columns, x)
	}
	s.Set("Out", s.In("X").DType, slices.Concat(x[:xAxes], y[yAxes:])...)
	s.ShareLoD("Out", "X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	return s.SameType("X", "Y")
}

// mulCost estimates flops operations for each of the m*k*n products.
func mulCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		n := infer.Size(s.In("Y").Dims[s.Int("y_num_col_dims"):])
		return ops.Cost{Flops: flops * infer.Size([]int64{infer.Size(s.In("X").Dims), n}), Bytes: infer.Bytes(s)}
	}
}

// mulExtents returns the extents of the product.
func mulExtents(b *ops.Binding) (m, k, n int) {
	m, k = bind.Matrix(b.In("X").Dims(), int(b.Int("x_num_col_dims")))
	_, n = bind.Matrix(b.In("Y").Dims(), int(b.Int("y_num_col_dims")))
	return m, k, n
}

func bindMul[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	m, k, n := mulExtents(b)
	each := kernel.GemmWorkspace(m, n, k)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	return b.Loops(ops.Loop{N: m, Least: leastRows, Whole: []string{"Y"}, Run: func(part, from, till int) error {
		kernel.Gemm(false, false, till-from, n, k, 1, tensor.Data[T](x)[from*k:], k, tensor.Data[T](y), n,
			0, tensor.Data[T](to)[from*n:], n, ops.Part(tensor.Data[T](workspace), part, each))
		return nil
	}})
}

func bindMulGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout := b.In("X"), b.In("Y"), b.In("Out@GRAD")
	dx, dy := b.Out("X@GRAD"), b.Out("Y@GRAD")
	m, k, n := mulExtents(b)
	each := max(kernel.GemmWorkspace(m, k, n), kernel.GemmWorkspace(k, n, m))
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	var loops []ops.Loop
	if dy != nil {
		loops = append(loops, ops.Loop{N: k, Least: leastRows, Reads: []string{"X", "Out@GRAD"}, Whole: []string{"X", "Out@GRAD"}, Writes: []string{"Y@GRAD"},
			Run: func(part, from, to int) error {
				kernel.Gemm(true, false, to-from, n, m, 1, tensor.Data[T](x)[from:], k, tensor.Data[T](dout), n,
					0, tensor.Data[T](dy)[from*n:], n, ops.Part(tensor.Data[T](workspace), part, each))
				return nil
			}})
	}
	if dx != nil {
		loops = append(loops, ops.Loop{N: m, Least: leastRows, Reads: []string{"Y", "Out@GRAD"}, Whole: []string{"Y"}, Writes: []string{"X@GRAD"},
			Run: func(part, from, to int) error {
				kernel.Gemm(false, true, to-from, k, n, 1, tensor.Data[T](dout)[from*n:], n, tensor.Data[T](y), n,
					0, tensor.Data[T](dx)[from*k:], k, ops.Part(tensor.Data[T](workspace), part, each))
				return nil
			}})
	}
	return b.Loops(loops...)
}

// leastRows is how many rows of a product are computed at a time at least: for fewer, packing the other matrix takes a good
// part of the time.
const leastRows = 16
