package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "match_matrix_tensor",
		Doc: "Compares each row of a sequence of X with each row of the sequence of Y at its place (Wan et al. 2016): of the sequences x and y, Out has for each channel t the " +
			"matrix x*W[:,t,:]*transpose(y), row after row.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [rows, M], sequences of one LoD level"},
			{Name: "Y", Doc: "[rows, N], as many sequences"},
			{Name: "W", Doc: "[M, dim_t, N]"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[elements, 1], a sequence for each pair of sequences: channels of grids"},
			{Name: "Tmp", Doc: "[rows of X * dim_t * N, 1]: X*W", Intermediate: true}},
		Attrs:     []ops.Attr{{Name: "dim_t", Doc: "number of channels", Default: int32(1)}},
		Infer:     inferMatchMatrix,
		MakesLoD:  always,
		MixesRows: dividedTogether("X", "Y"),
		Cost:      matchMatrixCost(2),
		Bind:      opkit.BindFloats("X", bindMatchMatrix[float32], bindMatchMatrix[float64]),
	}, opkit.Gradient{
		Doc:     "with dTmp[:,t,:] = dOut[t]*y, dX = dTmp*transpose(W), dW = transpose(X)*dTmp, and dY is the sum over channels of transpose(dOut[t])*Tmp[:,t,:].",
		Inputs:  []string{"X", "Y", "W"},
		Outputs: []string{"Tmp"},
		From:    []string{"Out"},
		Wrt:     []string{"X", "Y", "W"},
		Cost:    matchMatrixCost(6),
		Bind:    opkit.BindFloats("X", bindMatchMatrixGrad[float32], bindMatchMatrixGrad[float64]),
	})
}

func inferMatchMatrix(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y", "W"); err != nil {
		return err
	}
	for slot, rank := range opkit.InOrder(map[string]int{"X": 2, "Y": 2, "W": 3}) {
		if err := s.Rank(slot, rank); err != nil {
			return err
		}
	}
	if err := checkPair(s, "X", "Y"); err != nil {
		return err
	}
	x, y, channels := s.In("X"), s.In("Y"), s.Int("dim_t")
	if channels < 1 {
		return opkit.BadAttr(s, "dim_t", "at least 1")
	}
	if !ops.Compatible(s.In("W").Dims, []int64{x.Dims[1], channels, y.Dims[1]}) {
		return s.Errorf("W", "dims [%d, %d, %d]", x.Dims[1], channels, y.Dims[1])
	}
	sizes, err := gridSizes(s, "X", "Y", channels, 1, 1)
	if err != nil {
		return err
	}
	setGrids(s, "Out", x.DType, sizes)
	s.Set("Tmp", x.DType, ops.Product([]int64{x.Dims[0], channels, y.Dims[1]}), 1)
	return nil
}

// matchMatrixCost counts both products. The pairs of rows are not known before the offsets are: it takes the sequences for equally long.
func matchMatrixCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		rows := s.In("X").Dims[0]
		return ops.Cost{Flops: flops * opkit.Size([]int64{rows, opkit.Size(s.In("W").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// A matching is a bound match_matrix_tensor, or its gradient.
type matching[T tensor.Float] struct {
	*pairing
	x, y, w, tmp *tensor.Tensor
	m, n         int // columns of X and Y
	channels     int
	work         *tensor.Tensor
	each         int // elements of work that a part has
}

func newMatching[T tensor.Float](b *ops.Binding, tmp *tensor.Tensor) *matching[T] {
	g := &matching[T]{pairing: pair(b, "X", "Y", 1, 1), x: b.In("X"), y: b.In("Y"), w: b.In("W"), tmp: tmp}
	dims := g.w.Dims()
	g.m, g.channels, g.n = int(dims[0]), int(dims[1]), int(dims[2])
	rows, columns := int(g.x.Dims()[0]), int(g.y.Dims()[0])
	g.each = max(kernel.GemmWorkspace(rows, g.deep(), g.m), kernel.GemmWorkspace(rows, columns, g.n), kernel.GemmWorkspace(rows, g.n, columns),
		kernel.GemmWorkspace(columns, g.n, rows), kernel.GemmWorkspace(rows, g.m, g.deep()), kernel.GemmWorkspace(g.m, g.deep(), rows))
	g.work = b.Scratch(tensor.Of[T](), b.Parts()*g.each)
	return g
}

// deep returns the columns of Tmp as a matrix with the rows of X.
func (g *matching[T]) deep() int { return g.channels * g.n }

// space returns the workspace of a part.
func (g *matching[T]) space(part int) []T { return ops.Part(tensor.Data[T](g.work), part, g.each) }

func bindMatchMatrix[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	out, deep := b.Out("Out"), int(b.In("W").Dims()[1]*b.In("W").Dims()[2])
	rows := int(b.In("X").Dims()[0])
	g := newMatching[T](b, orScratch[T](b, "Tmp", rows*deep))
	return b.Loops(g.count(b, measured{"Out", out, g.channels, false}),
		ops.Loop{N: rows, Least: leastPicked, Apart: true, Whole: []string{"W"}, Run: func(part, from, to int) error {
			kernel.Gemm(false, false, to-from, deep, g.m, 1, tensor.Data[T](g.x)[from*g.m:], g.m, tensor.Data[T](g.w), deep, 0, tensor.Data[T](g.tmp)[from*deep:], deep,
				g.space(part))
			return nil
		}},
		g.pairing.each(func(part int, at grid) {
			if out == nil {
				return
			}
			x, y := tensor.Data[T](g.tmp)[at.row*deep:], tensor.Data[T](g.y)[at.column*g.n:]
			for t := range g.channels {
				kernel.Gemm(false, true, at.height, at.width, g.n, 1, tail(x, t*g.n), deep, y, g.n, 0, g.channel(out, at, t), at.width, g.space(part))
			}
		}))
}

// channel returns the elements of a channel of a grid.
func (g *matching[T]) channel(all *tensor.Tensor, at grid, t int) []T {
	cells := at.height * at.width
	return tensor.Data[T](all)[g.channels*at.before+t*cells:][:cells]
}

func bindMatchMatrixGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	g, dout := newMatching[T](b, b.In("Tmp")), b.In(program.GradName("Out"))
	dx, dy, dw := b.Out(program.GradName("X")), b.Out(program.GradName("Y")), b.Out(program.GradName("W"))
	rows, deep := int(g.x.Dims()[0]), g.deep()
	dtmp := b.Scratch(tensor.Of[T](), rows*deep)
	loops := []ops.Loop{g.count(b, measured{"Out@GRAD", dout, g.channels, false}), g.pairing.each(func(part int, at grid) {
		x, y := tail(tensor.Data[T](g.tmp), at.row*deep), tensor.Data[T](g.y)[at.column*g.n:]
		for t := range g.channels {
			d := g.channel(dout, at, t)
			kernel.Gemm(false, false, at.height, g.n, at.width, 1, d, at.width, y, g.n, 0, tail(tensor.Data[T](dtmp), at.row*deep+t*g.n), deep, g.space(part))
			if dy == nil {
				continue
			}
			kernel.Gemm(true, false, at.width, g.n, at.height, 1, d, at.width, tail(x, t*g.n), deep, T(min(t, 1)), tensor.Data[T](dy)[at.column*g.n:], g.n, g.space(part))
		}
	})}
	if dx != nil {
		loops = append(loops, ops.Loop{N: rows, Least: leastPicked, Apart: true, Reads: []string{"W"}, Whole: []string{"W"}, Writes: []string{program.GradName("X")}, Run: func(part, from, to int) error {
			kernel.Gemm(false, true, to-from, g.m, deep, 1, tensor.Data[T](dtmp)[from*deep:], deep, tensor.Data[T](g.w), deep, 0, tensor.Data[T](dx)[from*g.m:], g.m, g.space(part))
			return nil
		}})
	}
	if dw != nil {
		loops = append(loops, ops.Loop{N: g.m, Apart: true, Reads: []string{"X"}, Writes: []string{program.GradName("W")}, Run: func(part, from, to int) error {
			kernel.Gemm(true, false, to-from, deep, rows, 1, tail(tensor.Data[T](g.x), from), g.m, tensor.Data[T](dtmp), deep, 0, tensor.Data[T](dw)[from*deep:], deep, g.space(part))
			return nil
		}})
	}
	return b.Loops(loops...)
}
