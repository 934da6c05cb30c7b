package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "matmul",
		Doc: "The product of the matrices on the last two axes: Out = alpha*op(X)*op(Y), where op transposes when asked to. " +
			"The axes before them count equal pairs of matrices; an operand of rank 2 meets every matrix of the other.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [..., m, k], rank 2 or more"}, {Name: "Y", Doc: "float [..., k, n], rank 2 or more"}},
		Outputs: out("Out", "[..., m, n]"),
		Attrs: []ops.Attr{
			{Name: "transpose_X", Doc: "whether matrices of X are transposed", Default: false},
			{Name: "transpose_Y", Doc: "whether matrices of Y are transposed", Default: false},
			{Name: "alpha", Doc: "factor of the product", Default: float32(1)}},
		Infer: inferMatmul,
		Cost:  matmulCost(2),
		Bind:  opkit.BindFloats("X", bindMatmul[float32], bindMatmul[float64]),
	}, opkit.Gradient{
		Doc:    "dX = alpha*dOut*transpose(op(Y)), dY = alpha*transpose(op(X))*dOut, transposed back where op transposes.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   matmulCost(4),
		Bind:   opkit.BindFloats("X", bindMatmulGrad[float32], bindMatmulGrad[float64]),
	})
}

// lastTwo returns the extents of op(matrix) for dims of rank 2 or more.
func lastTwo(dims []int64, transpose bool) (rows, cols int64) {
	rows, cols = dims[len(dims)-2], dims[len(dims)-1]
	if transpose {
		return cols, rows
	}
	return rows, cols
}

func inferMatmul(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	for _, slot := range []string{"X", "Y"} {
		if len(s.In(slot).Dims) < 2 {
			return s.Errorf(slot, "rank 2 or more")
		}
	}
	m, k := lastTwo(x, s.Bool("transpose_X"))
	rows, n := lastTwo(y, s.Bool("transpose_Y"))
	if !opkit.Agree(k, rows) {
		return s.Errorf("Y", "matrices of %d rows, as those of X %v have columns", k, x)
	}
	batch := x[:len(x)-2]
	if other := y[:len(y)-2]; len(batch) == 0 {
		batch = other
	} else if len(other) > 0 && !ops.Compatible(batch, other) {
		return s.Errorf("Y", "rank 2, or as many matrices as X %v", x)
	}
	s.Set("Out", s.In("X").DType, slices.Concat(batch, []int64{m, n})...)
	if len(x) == 2 && len(y) == 2 && !s.Bool("transpose_X") {
		s.ShareLoD("Out", "X")
	}
	return nil
}

func matmulCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		out := append(s.Outs("Out"), s.Ins("Out@GRAD")...)[0].Dims
		_, k := lastTwo(s.In("X").Dims, s.Bool("transpose_X"))
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(out), k}), Bytes: opkit.Bytes(s)}
	}
}

// A matmulShape says how the matrices of a matmul lie. A step is the distance from one matrix to the next, 0 where one
// matrix meets all; ld is the length of a row as it is stored.
type matmulShape struct {
	batch, m, n, k         int
	transposeX, transposeY bool
	xStep, yStep           int
	xLD, yLD               int
	alpha                  float64
}

func matmulShapeOf(b *ops.Binding) matmulShape {
	x, y := b.In("X").Dims(), b.In("Y").Dims()
	p := matmulShape{batch: 1, transposeX: b.Bool("transpose_X"), transposeY: b.Bool("transpose_Y"), alpha: b.Float("alpha")}
	m, k := lastTwo(x, p.transposeX)
	_, n := lastTwo(y, p.transposeY)
	p.m, p.k, p.n = int(m), int(k), int(n)
	p.xLD, p.yLD = int(x[len(x)-1]), int(y[len(y)-1])
	if len(x) > 2 {
		p.batch, p.xStep = opkit.Count(x[:len(x)-2]), p.m*p.k
	}
	if len(y) > 2 {
		p.batch, p.yStep = opkit.Count(y[:len(y)-2]), p.k*p.n
	}
	return p
}

func bindMatmul[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to, p := b.In("X"), b.In("Y"), b.Out("Out"), matmulShapeOf(b)
	if p.batch == 1 {
		one := product[T]{transX: p.transposeX, transY: p.transposeY, m: p.m, n: p.n, k: p.k, alpha: T(p.alpha), x: x, y: y,
			Finishing: ops.Finishing[T]{Out: to},
			xLD:       p.xLD, yLD: p.yLD, xSlot: "X", ySlot: "Y", outSlot: "Out"}
		return b.Loops(one.loop(b))
	}
	each := kernel.GemmWorkspace(p.m, p.n, p.k)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	return b.Loops(ops.Loop{N: p.batch, Whole: []string{"X", "Y"}, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			kernel.Gemm(p.transposeX, p.transposeY, p.m, p.n, p.k, T(p.alpha), tensor.Data[T](x)[i*p.xStep:], p.xLD, tensor.Data[T](y)[i*p.yStep:], p.yLD,
				0, tensor.Data[T](to)[i*p.m*p.n:], p.n, ops.Part(tensor.Data[T](workspace), part, each))
		}
		return nil
	}})
}
