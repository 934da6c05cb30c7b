package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
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

		MixesRows: opkit.RowsOnlyIn("X"),
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

// mulCost estimates flops operations for each of the m*k*n products of every wanted matrix.
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

func init() {
	opkit.Register(ops.Def{
		Type: "matmul",
		Doc: "The product of the matrices on the last two axes: Out = alpha*op(X)*op(Y), where op is the identity or transposes. " +
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

		MixesRows: matmulMixesRows("transpose_X"),
	}, opkit.Gradient{
		Doc:    "dX = alpha*dOut*transpose(op(Y)), dY = alpha*transpose(op(X))*dOut, transposed back where op transposes.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   matmulCost(4),
		Bind:   opkit.BindFloats("X", bindMatmulGrad[float32], bindMatmulGrad[float64]),
	})
}

// matmulMixesRows makes the MixesRows of a product of matrices. Rows of a batch may be the rows of one matrix X, or each row is a matrix, of both operands
// or of one that meets a single matrix of the other.
func matmulMixesRows(transposeX string) opkit.Mixing {
	return func(s *ops.Shapes, divided func(string) bool) bool {
		x, y := len(s.In("X").Dims), len(s.In("Y").Dims)
		switch {
		case divided("X") && divided("Y"):
			return x < 3 || x != y
		case divided("Y"):
			return y < 3 || x > 2
		}
		return x < 2 || y > 2 || x == 2 && s.Bool(transposeX)
	}
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

// A matmulShape says how the matrices of a matmul lie in memory. A step is the distance between matrices of a batch, 0 if the operand has only one.
// ld is the length of a stored row.
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

func bindMatmulGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	p := matmulShapeOf(b)
	if dout.Len() > 0 && p.batch == 1 {
		return b.Loops(matmulGradOnce[T](b, p)...)
	}
	if dout.Len() == 0 {
		return func(context.Context) error { // sums of nothing
			clear(opkit.Data[T](dx))
			clear(opkit.Data[T](dy))
			return nil
		}, nil
	}
	// An operand with one matrix for the whole batch has a gradient that sums over the batch. Such a gradient is divided by rows.
	most := max(p.m, p.n, p.k)
	each := kernel.GemmWorkspace(most, most, most)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	scratch := func(part int) []T { return ops.Part(tensor.Data[T](workspace), part, each) }
	var loops []ops.Loop
	if dy != nil {
		n, rows := matmulGradIterations(p.batch, p.yStep, y)
		loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"X", "Out@GRAD"}, Writes: []string{"Y@GRAD"},
			Run: func(part, from, to int) error {
				matmulGradY(p, tensor.Data[T](dy), tensor.Data[T](x), tensor.Data[T](dout), scratch(part), cutOf(p.batch, rows, from, to))
				return nil
			}})
	}
	if dx != nil {
		n, rows := matmulGradIterations(p.batch, p.xStep, x)
		loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"Y", "Out@GRAD"}, Writes: []string{"X@GRAD"},
			Run: func(part, from, to int) error {
				matmulGradX(p, tensor.Data[T](dx), tensor.Data[T](y), tensor.Data[T](dout), scratch(part), cutOf(p.batch, rows, from, to))
				return nil
			}})
	}
	return b.Loops(loops...)
}

// A gradCut is the part of a gradient that a range of iterations computes: some rows of the matrices of a part of the batch.
type gradCut struct{ first, last, row, end int }

// matmulGradIterations returns the iterations of the gradient of an operand, and the rows of each of its matrices. An iteration is a matrix if the
// operand has one for each of the batch, else a row of the only one.
func matmulGradIterations(batch, step int, operand *tensor.Tensor) (n, rows int) {
	dims := operand.Dims()
	rows = int(dims[len(dims)-2])
	if step > 0 {
		return batch, rows
	}
	return rows, 0
}

// cutOf returns the part that iterations [from, to) compute.
func cutOf(batch, rows, from, to int) gradCut {
	if rows > 0 {
		return gradCut{from, to, 0, rows}
	}
	return gradCut{0, batch, from, to}
}

// matmulGradOnce makes the loops of the gradients of a single product.
func matmulGradOnce[T tensor.Float](b *ops.Binding, p matmulShape) []ops.Loop {
	dx := product[T]{transY: !p.transposeY, m: p.m, n: p.k, k: p.n, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD", y: b.In("Y"), yLD: p.yLD,
		ySlot: "Y"}
	if p.transposeX {
		dx = product[T]{transX: p.transposeY, transY: true, m: p.k, n: p.m, k: p.n, x: b.In("Y"), xLD: p.yLD, xSlot: "Y", y: b.In("Out@GRAD"),
			yLD: p.n, ySlot: "Out@GRAD"}
	}
	dy := product[T]{transX: !p.transposeX, m: p.k, n: p.n, k: p.m, x: b.In("X"), xLD: p.xLD, xSlot: "X", y: b.In("Out@GRAD"), yLD: p.n,
		ySlot: "Out@GRAD"}
	if p.transposeY {
		dy = product[T]{transX: true, transY: p.transposeX, m: p.n, n: p.k, k: p.m, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD",
			y: b.In("X"), yLD: p.xLD, ySlot: "X"}
	}
	dx.outSlot, dx.Out, dy.outSlot, dy.Out = "X@GRAD", b.Out("X@GRAD"), "Y@GRAD", b.Out("Y@GRAD")
	var loops []ops.Loop
	for _, d := range []product[T]{dy, dx} {
		if d.Out != nil {
			d.alpha = T(p.alpha)
			loops = append(loops, d.loop(b))
		}
	}
	return loops
}

// matmulGradX overwrites the part cut of dx. It sums over the batch if X has one matrix.
func matmulGradX[T tensor.Float](p matmulShape, dx, y, dout, workspace []T, cut gradCut) {
	for i := cut.first; i < cut.last; i++ {
		to, b, g := dx[i*p.xStep:], y[i*p.yStep:], dout[i*p.m*p.n:]
		if p.transposeX {
			accumulateProduct(p.transposeY, true, p.m, p.n, T(p.alpha), b, p.yLD, g, p.n, to, p.xLD, workspace, cut, p.xStep > 0 || i == 0)
		} else {
			accumulateProduct(false, !p.transposeY, p.k, p.n, T(p.alpha), g, p.n, b, p.yLD, to, p.xLD, workspace, cut, p.xStep > 0 || i == 0)
		}
	}
}

// matmulGradY overwrites the part cut of dy. It sums over the batch if Y has one matrix.
func matmulGradY[T tensor.Float](p matmulShape, dy, x, dout, workspace []T, cut gradCut) {
	for i := cut.first; i < cut.last; i++ {
		to, a, g := dy[i*p.yStep:], x[i*p.xStep:], dout[i*p.m*p.n:]
		if p.transposeY {
			accumulateProduct(true, p.transposeX, p.k, p.m, T(p.alpha), g, p.n, a, p.xLD, to, p.yLD, workspace, cut, p.yStep > 0 || i == 0)
		} else {
			accumulateProduct(!p.transposeX, false, p.n, p.m, T(p.alpha), a, p.xLD, g, p.n, to, p.yLD, workspace, cut, p.yStep > 0 || i == 0)
		}
	}
}

// accumulateProduct adds rows of alpha*op(a)*op(b) to c, with n columns and sums over k. If fresh is true it first clears these rows of c.
func accumulateProduct[T tensor.Float](transA, transB bool, n, k int, alpha T, a []T, lda int, b []T, ldb int, c []T, ldc int,
	workspace []T, cut gradCut, fresh bool) {
	c = c[cut.row*ldc:]
	if fresh {
		clear(c[:(cut.end-cut.row)*ldc])
	}
	row := cut.row * lda
	if transA {
		row = cut.row
	}
	kernel.Gemm(transA, transB, cut.end-cut.row, n, k, alpha, a[row:], lda, b, ldb, 1, c, ldc, workspace)
}

// A product is one matrix product as a loop: out = alpha*op(x)*op(y), of m x k by k x n.
type product[T tensor.Float] struct {
	transX, transY bool
	m, n, k        int
	alpha          T
	x, y           *tensor.Tensor
	ops.Finishing[T]
	xLD, yLD     int
	xSlot, ySlot string // inputs, for ops.Loop
	outSlot      string
}

const (
	// leastRows is how many rows a range should have at least. With fewer rows, reading the other matrix takes much of the time.
	leastRows = 16
	// panel is how many columns a range by columns takes at a time: a multiple of the tile width of every processor. The division by columns may
	// also divide the rows of a panel, into groups of at least leastRows, so that parts differ by less than a panel.
	panel = 16
)

// loop makes a loop over rows, which can join other loops over rows. For several goroutines, a product with fewer rows than columns is a loop over
// columns, so that each goroutine reads only its part of the larger matrix. An element of a product has the same bits either way (kernel.Gemm).
func (p *product[T]) loop(b *ops.Binding) ops.Loop {
	each := kernel.GemmWorkspace(p.m, p.n, p.k)
	workspace := b.Scratch(p.x.DType(), b.Parts()*each)
	take := p.TakeOver(p.m, p.n, 1)
	inPlace := p.alpha == 1 && kernel.AddsInPlace(p.k)
	reads, writes := []string{p.xSlot, p.ySlot}, []string{p.outSlot}
	if b.Parts() > 1 && p.m < p.n && p.m < leastRows*leastRows {
		groups := max(1, p.m/leastRows)
		panels := (p.n + panel - 1) / panel
		return ops.Loop{N: panels * groups, Reads: reads, Whole: reads, Writes: writes, Apart: true, TakeOver: take, Accumulate: p.Accumulate,
			InPlace: inPlace, Run: func(part, from, to int) error {
				for from < to {
					first, group := from/groups, from%groups
					count := (to - from) / groups // of whole panels
					if group > 0 || count == 0 {
						end := min(groups, group+to-from)
						p.run(part, each, workspace, p.m*group/groups, p.m*end/groups, first*panel, min((first+1)*panel, p.n))
						from += end - group
						continue
					}
					p.run(part, each, workspace, 0, p.m, first*panel, min((first+count)*panel, p.n))
					from += count * groups
				}
				return nil
			}}
	}
	whole, least := []string{p.ySlot}, leastRows
	if p.transX {
		whole = reads
	}
	if p.transY { // every range copies y
		least = max(leastRows, min(2*leastRows, p.m/4))
	}
	return ops.Loop{N: p.m, Least: least, Reads: reads, Whole: whole, Writes: writes, TakeOver: take, Accumulate: p.Accumulate, InPlace: inPlace,
		Run: func(part, from, to int) error {
			p.run(part, each, workspace, from, to, 0, p.n)
			return nil
		}}
}

// run computes some rows and columns of a product.
func (p *product[T]) run(part, each int, workspace *tensor.Tensor, firstRow, endRow, firstColumn, endColumn int) {
	row, column := firstRow*p.xLD, firstColumn // where op(x) and op(y) begin
	if p.transX {
		row = firstRow
	}
	if p.transY {
		column = firstColumn * p.yLD
	}
	at, beta := firstRow*p.n+firstColumn, T(0)
	e := kernel.Epilogue[T]{Activation: p.Function}
	if p.Bias != nil {
		e.Bias = tensor.Data[T](p.Bias)[firstColumn:endColumn]
	}
	switch {
	case p.Term == nil:
	case samePlace(tensor.Data[T](p.Term), tensor.Data[T](p.Out)):
		beta = 1
	default:
		e.Term = tensor.Data[T](p.Term)[at:]
	}
	kernel.GemmEpilogue(p.transX, p.transY, endRow-firstRow, endColumn-firstColumn, p.k, p.alpha,
		tensor.Data[T](p.x)[row:], p.xLD, tensor.Data[T](p.y)[column:], p.yLD,
		beta, tensor.Data[T](p.Out)[at:], p.n, e, ops.Part(tensor.Data[T](workspace), part, each))
}

func samePlace[T tensor.Float](a, b []T) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
