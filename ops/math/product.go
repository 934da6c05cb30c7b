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
	if err := opkit.FloatSoFar(s, "X"); err != nil {
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
