package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A matmulForm is what the ops that multiply batches of matrices differ in.
type matmulForm struct {
	y              string // slot of the second operand
	transX, transY string // attributes; "" for none
	// transposesVectors says that the attributes also turn operands of rank 1.
	transposesVectors bool
}

var (
	matmul   = matmulForm{"Y", "transpose_X", "transpose_Y", true}
	matmulV2 = matmulForm{"Y", "trans_x", "trans_y", false}
	bmm      = matmulForm{y: "Y"}
	mv       = matmulForm{y: "Vec"}
)

func init() {
	const meets = "The axes before them count matrices, and those of both operands are broadcast: extents are equal or 1, and axes may lack. "
	operands := []ops.Slot{{Name: "X", Doc: "float [..., m, k], or [k]"}, {Name: "Y", Doc: "float [..., k, n], or [k]"}}
	flags := func(f matmulForm) []ops.Attr {
		return []ops.Attr{{Name: f.transX, Doc: "whether matrices of X are transposed", Default: false},
			{Name: f.transY, Doc: "whether matrices of Y are transposed", Default: false}}
	}
	matmul.register(ops.Def{
		Type: "matmul",
		Doc: "The product of the matrices on the last two axes: Out = alpha*op(X)*op(Y), where op is the identity or transposes. " + meets +
			"An X of rank 1 is a row, a Y a column; transposed, X is a column and Y a row.",
		Inputs:  operands,
		Outputs: out("Out", "[..., m, n], without the axis that a row or column has added"),
		Attrs:   append(flags(matmul), ops.Attr{Name: "alpha", Doc: "factor of the product", Default: float32(1)}),
	})
	matmulV2.register(ops.Def{
		Type: "matmul_v2",
		Doc: "The product of the matrices on the last two axes: Out = op(X)*op(Y), where op is the identity or transposes. " + meets +
			"An X of rank 1 is a row, a Y a column, transposed or not.",
		Inputs:  operands,
		Outputs: out("Out", "[..., m, n], without the axis that a row or column has added"),
		Attrs:   flags(matmulV2),
	})
	bmm.register(ops.Def{
		Type:    "bmm",
		Doc:     "The products of pairs of matrices: Out[i] = X[i]*Y[i].",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [b, m, k]"}, {Name: "Y", Doc: "float [b, k, n]"}},
		Outputs: out("Out", "[b, m, n]"),
	})
	mv.register(ops.Def{
		Type:    "mv",
		Doc:     "The product of a matrix and a vector: Out = X*Vec.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [m, k]"}, {Name: "Vec", Doc: "float [k]"}},
		Outputs: out("Out", "[m]"),
	})
}

// register adds the op and its gradient. def has slots, attributes and documentation.
func (f matmulForm) register(def ops.Def) {
	def.Infer = f.infer
	def.Cost = f.cost(2)
	def.Bind = opkit.BindFloats("X", bindMatmul[float32](f), bindMatmul[float64](f))
	def.MixesRows = f.mixesRows
	opkit.Register(def, opkit.Gradient{
		Doc:    "dX = alpha*dOut*transpose(op(Y)), dY = alpha*transpose(op(X))*dOut, transposed back where op transposes, and summed where an operand was broadcast.",
		Inputs: []string{"X", f.y},
		Wrt:    []string{"X", f.y},
		Cost:   f.cost(4),
		Bind:   opkit.BindFloats("X", bindMatmulGrad[float32](f), bindMatmulGrad[float64](f)),
	})
}

// transposes reads an attribute, false where the op has none.
func transposes(s interface{ Bool(string) bool }, attr string) bool {
	return attr != "" && s.Bool(attr)
}

// mixesRows is the MixesRows of a product of matrices. Rows of a batch may be the rows of one matrix X, or each row is a matrix, or several, of both operands
// or of one that meets the same matrices of the other.
func (f matmulForm) mixesRows(s *ops.Shapes, divided func(string) bool) bool {
	x, y := s.In("X").Dims, s.In(f.y).Dims
	switch {
	case divided("X") && divided(f.y):
		return len(x) < 3 || len(x) != len(y)
	case divided(f.y):
		return len(y) < 3 || len(x) > 2 && (len(x) > len(y) || len(x) == len(y) && x[0] != 1)
	}
	return len(x) < 2 || len(x) == 2 && (len(y) > 2 || transposes(s, f.transX)) || len(y) > 2 && (len(y) > len(x) || len(y) == len(x) && y[0] != 1)
}

// operands returns the dims of both as matrices: a vector X is a row and a vector Y a column.
func (f matmulForm) operands(x, y []int64) (a, b []int64) {
	if len(x) == 1 {
		x = []int64{1, x[0]}
	}
	if len(y) == 1 {
		y = []int64{y[0], 1}
	}
	return x, y
}

// flags returns which matrices are transposed.
func (f matmulForm) flags(s interface{ Bool(string) bool }, x, y []int64) (transX, transY bool) {
	return transposes(s, f.transX) && (len(x) > 1 || f.transposesVectors), transposes(s, f.transY) && (len(y) > 1 || f.transposesVectors)
}

// lastTwo returns the extents of op(matrix) for dims of rank 2 or more.
func lastTwo(dims []int64, transpose bool) (rows, cols int64) {
	rows, cols = dims[len(dims)-2], dims[len(dims)-1]
	if transpose {
		return cols, rows
	}
	return rows, cols
}

// broadcastDims lays two lists of extents over each other from the end. Extents are equal or 1. ok is false if they do not fit. An open extent fits any, and
// gives way to one above 1.
func broadcastDims(x, y []int64) (dims []int64, ok bool) {
	if len(x) < len(y) {
		x, y = y, x
	}
	dims = slices.Clone(x)
	for i, extent := range y {
		at := len(x) - len(y) + i
		switch have := dims[at]; {
		case have == 1 || have == program.Unknown && extent != 1:
			dims[at] = extent
		case extent != 1 && !opkit.Agree(have, extent):
			return nil, false
		}
	}
	return dims, true
}

func (f matmulForm) infer(s *ops.Shapes) error {
	if err := opkit.FloatSoFar(s, "X"); err != nil {
		return err
	}
	if err := s.SameType("X", f.y); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In(f.y).Dims
	for i, slot := range [...]string{"X", f.y} {
		if n, ranks := len(s.In(slot).Dims), f.ranks(i); n < ranks[0] || n > ranks[1] {
			return s.Errorf(slot, "a rank from %d to %d", ranks[0], ranks[1])
		}
	}
	transX, transY := f.flags(s, x, y)
	a, b := f.operands(x, y)
	m, k := lastTwo(a, transX)
	rows, n := lastTwo(b, transY)
	if !opkit.Agree(k, rows) {
		return s.Errorf(f.y, "matrices of %d rows, as those of X %v have columns", k, x)
	}
	batch, ok := broadcastDims(a[:len(a)-2], b[:len(b)-2])
	if f == bmm {
		ok = opkit.Agree(x[0], y[0])
	}
	if !ok {
		return s.Errorf(f.y, "as many matrices as X %v, or one for all", x)
	}
	dims := batch
	if len(x) > 1 || m != 1 {
		dims = append(dims, m)
	}
	if len(y) > 1 || n != 1 {
		dims = append(dims, n)
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", s.In("X").DType, dims...)
	if len(x) > 2 && len(x) >= len(y) || len(x) == 2 && len(y) <= 2 && !transX {
		s.ShareLoD("Out", "X")
	}
	return nil
}

// ranks returns the least and largest rank of an operand.
func (f matmulForm) ranks(operand int) [2]int {
	switch {
	case f == bmm:
		return [2]int{3, 3}
	case f == mv:
		return [2]int{2 - operand, 2 - operand}
	}
	return [2]int{1, tensor.MaxRank}
}

func (f matmulForm) cost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		out := append(s.Outs("Out"), s.Ins("Out@GRAD")...)[0].Dims
		x, y := s.In("X").Dims, s.In(f.y).Dims
		transX, _ := f.flags(s, x, y)
		a, _ := f.operands(x, y)
		_, k := lastTwo(a, transX)
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(out), k}), Bytes: opkit.Bytes(s)}
	}
}

// A matmulShape says how the matrices of a matmul lie in memory. ld is the length of a stored row.
type matmulShape struct {
	batch, m, n, k         int
	transposeX, transposeY bool
	x, y                   matmulOperand
	xLD, yLD               int
	alpha                  float64
	ySlot                  string
}

// A matmulOperand says which matrices of an operand a batch multiplies.
type matmulOperand struct {
	count, size int     // matrices, and elements of one
	at          []int   // matrix of each product of the batch; nil: product i has matrix i
	of          [][]int // products of each matrix, if at is set
}

// matrix returns the first element of the matrix of product i.
func (o *matmulOperand) matrix(i int) int {
	if o.at != nil {
		i = o.at[i]
	}
	return i * o.size
}

// each calls add for the products of matrix j, in their order.
func (o *matmulOperand) each(j int, add func(i int, first bool)) {
	if o.at == nil {
		add(j, true)
		return
	}
	for k, i := range o.of[j] {
		add(i, k == 0)
	}
}

// operandOf finds the matrices of an operand with these dims before the last two, in a batch.
func operandOf(dims, batch []int64, size int) matmulOperand {
	o := matmulOperand{count: opkit.Count(dims), size: size}
	n := opkit.Count(batch)
	if o.count == n {
		return o
	}
	o.at, o.of = make([]int, n), make([][]int, o.count)
	for i := range n {
		rest, step := i, 1
		for axis := len(batch) - 1; axis >= 0; axis-- {
			extent := int(batch[axis])
			if own := axis - (len(batch) - len(dims)); own >= 0 {
				if dims[own] > 1 {
					o.at[i] += rest % extent * step
				}
				step *= int(dims[own])
			}
			rest /= extent
		}
		o.of[o.at[i]] = append(o.of[o.at[i]], i)
	}
	return o
}

func (f matmulForm) shapeOf(b *ops.Binding) matmulShape {
	x, y := b.In("X").Dims(), b.In(f.y).Dims()
	p := matmulShape{alpha: 1, ySlot: f.y}
	p.transposeX, p.transposeY = f.flags(b, x, y)
	if f == matmul {
		p.alpha = b.Float("alpha")
	}
	x, y = f.operands(x, y)
	m, k := lastTwo(x, p.transposeX)
	_, n := lastTwo(y, p.transposeY)
	p.m, p.k, p.n = int(m), int(k), int(n)
	p.xLD, p.yLD = int(x[len(x)-1]), int(y[len(y)-1])
	batch, _ := broadcastDims(x[:len(x)-2], y[:len(y)-2])
	p.batch = opkit.Count(batch)
	if opkit.Count(y[:len(y)-2]) == 1 && !p.transposeX && opkit.Count(x[:len(x)-2]) == p.batch {
		p.m, p.batch, batch, x = p.m*p.batch, 1, nil, x[len(x)-2:] // the matrices of X are one, of more rows
		y = y[len(y)-2:]
	}
	p.x, p.y = operandOf(x[:len(x)-2], batch, p.m*p.k), operandOf(y[:len(y)-2], batch, p.k*p.n)
	return p
}

func bindMatmul[T tensor.Float](f matmulForm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to, p := b.In("X"), b.In(f.y), b.Out("Out"), f.shapeOf(b)
		if p.batch == 1 {
			one := product[T]{transX: p.transposeX, transY: p.transposeY, m: p.m, n: p.n, k: p.k, alpha: T(p.alpha), x: x, y: y,
				Finishing: ops.Finishing[T]{Out: to},
				xLD:       p.xLD, yLD: p.yLD, xSlot: "X", ySlot: f.y, outSlot: "Out"}
			return b.Loops(one.loop(b))
		}
		each := kernel.GemmWorkspace(p.m, p.n, p.k)
		workspace := b.Scratch(x.DType(), b.Parts()*each)
		return b.Loops(ops.Loop{N: p.batch, Whole: []string{"X", f.y}, Run: func(part, from, till int) error {
			for i := from; i < till; i++ {
				kernel.Gemm(p.transposeX, p.transposeY, p.m, p.n, p.k, T(p.alpha), tensor.Data[T](x)[p.x.matrix(i):], p.xLD,
					tensor.Data[T](y)[p.y.matrix(i):], p.yLD, 0, tensor.Data[T](to)[i*p.m*p.n:], p.n, ops.Part(tensor.Data[T](workspace), part, each))
			}
			return nil
		}})
	}
}

func bindMatmulGrad[T tensor.Float](f matmulForm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, dout, dx, dy := b.In("X"), b.In(f.y), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out(program.GradName(f.y))
		if dout.Len() == 0 {
			return func(context.Context) error { // sums of nothing
				clear(opkit.Data[T](dx))
				clear(opkit.Data[T](dy))
				return nil
			}, nil
		}
		p := f.shapeOf(b)
		if p.batch == 1 {
			return b.Loops(matmulGradOnce[T](b, p)...)
		}
		// An operand with one matrix for the whole batch has a gradient that sums over the batch. Such a gradient is divided by rows.
		most := max(p.m, p.n, p.k)
		each := kernel.GemmWorkspace(most, most, most)
		workspace := b.Scratch(x.DType(), b.Parts()*each)
		scratch := func(part int) []T { return ops.Part(tensor.Data[T](workspace), part, each) }
		var loops []ops.Loop
		if dy != nil {
			n, rows := matmulGradIterations(p.y.count, p.y.size/p.yLD)
			loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"X", "Out@GRAD"}, Writes: []string{program.GradName(f.y)},
				Run: func(part, from, to int) error {
					matmulGradY(p, tensor.Data[T](dy), tensor.Data[T](x), tensor.Data[T](dout), scratch(part), cutOf(rows, from, to))
					return nil
				}})
		}
		if dx != nil {
			n, rows := matmulGradIterations(p.x.count, p.x.size/p.xLD)
			loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{f.y, "Out@GRAD"}, Writes: []string{"X@GRAD"},
				Run: func(part, from, to int) error {
					matmulGradX(p, tensor.Data[T](dx), tensor.Data[T](y), tensor.Data[T](dout), scratch(part), cutOf(rows, from, to))
					return nil
				}})
		}
		return b.Loops(loops...)
	}
}

// A gradCut is the part of a gradient that a range of iterations computes: some rows of some matrices.
type gradCut struct{ first, last, row, end int }

// matmulGradIterations returns the iterations of the gradient of an operand, and the rows of each of its matrices, 0 if there is one. An iteration is a
// matrix if the operand has several, else a row of the only one.
func matmulGradIterations(count, rows int) (n, rowsOfEach int) {
	if count > 1 {
		return count, rows
	}
	return rows, 0
}

// cutOf returns the part that iterations [from, to) compute.
func cutOf(rows, from, to int) gradCut {
	if rows > 0 {
		return gradCut{from, to, 0, rows}
	}
	return gradCut{0, 1, from, to}
}

// matmulGradOnce makes the loops of the gradients of a single product.
func matmulGradOnce[T tensor.Float](b *ops.Binding, p matmulShape) []ops.Loop {
	dx := product[T]{transY: !p.transposeY, m: p.m, n: p.k, k: p.n, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD", y: b.In(p.ySlot), yLD: p.yLD,
		ySlot: p.ySlot}
	if p.transposeX {
		dx = product[T]{transX: p.transposeY, transY: true, m: p.k, n: p.m, k: p.n, x: b.In(p.ySlot), xLD: p.yLD, xSlot: p.ySlot, y: b.In("Out@GRAD"),
			yLD: p.n, ySlot: "Out@GRAD"}
	}
	dy := product[T]{transX: !p.transposeX, m: p.k, n: p.n, k: p.m, x: b.In("X"), xLD: p.xLD, xSlot: "X", y: b.In("Out@GRAD"), yLD: p.n,
		ySlot: "Out@GRAD"}
	if p.transposeY {
		dy = product[T]{transX: true, transY: p.transposeX, m: p.n, n: p.k, k: p.m, x: b.In("Out@GRAD"), xLD: p.n, xSlot: "Out@GRAD",
			y: b.In("X"), yLD: p.xLD, ySlot: "X"}
	}
	dx.outSlot, dx.Out, dy.outSlot, dy.Out = "X@GRAD", b.Out("X@GRAD"), program.GradName(p.ySlot), b.Out(program.GradName(p.ySlot))
	var loops []ops.Loop
	for _, d := range []product[T]{dy, dx} {
		if d.Out != nil {
			d.alpha = T(p.alpha)
			loops = append(loops, d.loop(b))
		}
	}
	return loops
}

// matmulGradX overwrites the part cut of dx. Each matrix sums over its products.
func matmulGradX[T tensor.Float](p matmulShape, dx, y, dout, workspace []T, cut gradCut) {
	for j := cut.first; j < cut.last; j++ {
		to := dx[j*p.x.size:]
		p.x.each(j, func(i int, first bool) {
			b, g := y[p.y.matrix(i):], dout[i*p.m*p.n:]
			if p.transposeX {
				accumulateProduct(p.transposeY, true, p.m, p.n, T(p.alpha), b, p.yLD, g, p.n, to, p.xLD, workspace, cut, first)
			} else {
				accumulateProduct(false, !p.transposeY, p.k, p.n, T(p.alpha), g, p.n, b, p.yLD, to, p.xLD, workspace, cut, first)
			}
		})
	}
}

// matmulGradY overwrites the part cut of dy. Each matrix sums over its products.
func matmulGradY[T tensor.Float](p matmulShape, dy, x, dout, workspace []T, cut gradCut) {
	for j := cut.first; j < cut.last; j++ {
		to := dy[j*p.y.size:]
		p.y.each(j, func(i int, first bool) {
			a, g := x[p.x.matrix(i):], dout[i*p.m*p.n:]
			if p.transposeY {
				accumulateProduct(true, p.transposeX, p.k, p.m, T(p.alpha), g, p.n, a, p.xLD, to, p.yLD, workspace, cut, first)
			} else {
				accumulateProduct(!p.transposeX, false, p.n, p.m, T(p.alpha), a, p.xLD, g, p.n, to, p.yLD, workspace, cut, first)
			}
		})
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
