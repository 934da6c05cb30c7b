package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
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
		Bind:  opkit.BindFloats("X", bindMul[float32], bindMul[float64]),
	}, opkit.Gradient{
		Doc:    "dX = dOut*transpose(Y), dY = transpose(X)*dOut.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   mulCost(2),
		Bind:   opkit.BindFloats("X", bindMulGrad[float32], bindMulGrad[float64]),
	})
}

func inferMul(s *ops.Shapes) error {
	x, y := s.In("X").Dims, s.In("Y").Dims
	xAxes, yAxes := s.Int("x_num_col_dims"), s.Int("y_num_col_dims")
	if xAxes < 1 || xAxes >= int64(len(x)) {
		return opkit.BadAttr(s, "x_num_col_dims", "at least 1 and less than the rank of X %v", x)
	}
	if yAxes < 1 || yAxes >= int64(len(y)) {
		return opkit.BadAttr(s, "y_num_col_dims", "at least 1 and less than the rank of Y %v", y)
	}
	_, columns := opkit.MatrixDims(x, int(xAxes))
	if rows, _ := opkit.MatrixDims(y, int(yAxes)); !opkit.Agree(columns, rows) {
		return s.Errorf("Y", "%d rows, as many as the matrix X %v has columns", columns, x)
	}
	s.Set("Out", s.In("X").DType, slices.Concat(x[:xAxes], y[yAxes:])...)
	s.ShareLoD("Out", "X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	return s.SameType("X", "Y")
}

// mulCost estimates flops operations for each of the m*k*n products of every matrix that is wanted.
func mulCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		n := opkit.Size(s.In("Y").Dims[s.Int("y_num_col_dims"):])
		return ops.Cost{Flops: flops * int64(len(s.Op().OutputNames())) * opkit.Size([]int64{opkit.Size(s.In("X").Dims), n}), Bytes: opkit.Bytes(s)}
	}
}

// mulExtents returns the extents of the product.
func mulExtents(b *ops.Binding) (m, k, n int) {
	m, k = opkit.Matrix(b.In("X").Dims(), int(b.Int("x_num_col_dims")))
	_, n = opkit.Matrix(b.In("Y").Dims(), int(b.Int("y_num_col_dims")))
	return m, k, n
}

func bindMul[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	m, k, n := mulExtents(b)
	p := product[T]{m: m, n: n, k: k, alpha: 1, x: b.In("X"), y: b.In("Y"), Finishing: ops.Finishing[T]{Out: b.Out("Out")}, xLD: k, yLD: n,
		xSlot: "X", ySlot: "Y", outSlot: "Out"}
	return b.Loops(p.loop(b))
}

func bindMulGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout := b.In("X"), b.In("Y"), b.In("Out@GRAD")
	m, k, n := mulExtents(b)
	var loops []ops.Loop
	if dy := b.Out("Y@GRAD"); dy != nil {
		p := product[T]{transX: true, m: k, n: n, k: m, alpha: 1, x: x, y: dout, Finishing: ops.Finishing[T]{Out: dy}, xLD: k, yLD: n, xSlot: "X",
			ySlot: "Out@GRAD", outSlot: "Y@GRAD"}
		loops = append(loops, p.loop(b))
	}
	if dx := b.Out("X@GRAD"); dx != nil {
		p := product[T]{transY: true, m: m, n: k, k: n, alpha: 1, x: dout, y: y, Finishing: ops.Finishing[T]{Out: dx}, xLD: n, yLD: n,
			xSlot: "Out@GRAD", ySlot: "Y", outSlot: "X@GRAD"}
		loops = append(loops, p.loop(b))
	}
	return b.Loops(loops...)
}
