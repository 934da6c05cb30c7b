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
		Type: "var_conv_2d",
		Doc: "Convolves grids of different extents: the grid of sequence i has as many rows as that of ROW and as many columns as that of COLUMN. The window has its middle, at " +
			"[KernelH/2, KernelW/2], on every StrideH-th row and every StrideW-th column, and zeros lie around the grid.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [elements, 1], a sequence for each grid: InputChannel channels of it"},
			{Name: "ROW", Doc: "any, of one LoD level, which alone counts"},
			{Name: "COLUMN", Doc: "likewise"},
			{Name: "W", Doc: "[OutputChannel, InputChannel*KernelH*KernelW]"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[elements, 1], a sequence for each grid: OutputChannel channels of the places of the window"},
			{Name: "Col", Doc: "[elements, 1]: the windows of each grid, [InputChannel*KernelH*KernelW, places]", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "InputChannel", Doc: "channels of X", Default: int32(1)},
			{Name: "OutputChannel", Doc: "channels of Out", Default: int32(1)},
			{Name: "StrideH", Doc: "step of the window from row to row", Default: int32(1)},
			{Name: "StrideW", Doc: "step of the window from column to column", Default: int32(1)},
			{Name: "KernelH", Doc: "rows of the window", Default: int32(1)},
			{Name: "KernelW", Doc: "columns of the window", Default: int32(1)}},
		Infer:     inferVarConv,
		MakesLoD:  always,
		MixesRows: dividedTogether("X", "ROW", "COLUMN"),
		Cost:      varConvCost(2),
		Bind:      opkit.BindFloats("X", bindVarConv[float32], bindVarConv[float64]),
	}, opkit.Gradient{
		Doc:     "dW is the sum over grids of dOut*transpose(Col), and dX sums what all windows that show an element have of transpose(W)*dOut.",
		Inputs:  []string{"X", "ROW", "COLUMN", "W"},
		Outputs: []string{"Col"},
		From:    []string{"Out"},
		Wrt:     []string{"X", "W"},
		Cost:    varConvCost(4),
		Bind:    opkit.BindFloats("X", bindVarConvGrad[float32], bindVarConvGrad[float64]),
	})
}

// mostVarConv bounds channels, windows and strides, so that products of three of them do not overflow.
const mostVarConv = 1 << 20

func inferVarConv(s *ops.Shapes) error {
	for _, name := range []string{"InputChannel", "OutputChannel", "StrideH", "StrideW", "KernelH", "KernelW"} {
		if v := s.Int(name); v < 1 || v > mostVarConv {
			return opkit.BadAttr(s, name, "1 to %d", mostVarConv)
		}
	}
	if err := checkGrids(s, "X"); err != nil {
		return err
	}
	if err := s.SameType("X", "W"); err != nil {
		return err
	}
	deep, channels := s.Int("InputChannel")*s.Int("KernelH")*s.Int("KernelW"), s.Int("OutputChannel")
	if !ops.Compatible(s.In("W").Dims, []int64{channels, deep}) {
		return s.Errorf("W", "dims [%d, %d]", channels, deep)
	}
	out, err := gridSizes(s, "ROW", "COLUMN", channels, s.Int("StrideH"), s.Int("StrideW"))
	if err != nil {
		return err
	}
	windows, err := gridSizes(s, "ROW", "COLUMN", deep, s.Int("StrideH"), s.Int("StrideW"))
	if err != nil {
		return err
	}
	setGrids(s, "Out", s.In("X").DType, out)
	setGrids(s, "Col", s.In("X").DType, windows)
	return nil
}

func varConvCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		return ops.Cost{Flops: flops * opkit.Size([]int64{s.In("X").Dims[0], s.Int("OutputChannel"), s.Int("KernelH"), s.Int("KernelW")}), Bytes: opkit.Bytes(s)}
	}
}

// A gridConv is a bound var_conv_2d, or its gradient.
type gridConv[T tensor.Float] struct {
	*pairing
	shape         kernel.UnfoldShape // without extents
	x, w, columns *tensor.Tensor
	deep          int // InputChannel*KernelH*KernelW
	channels      int // OutputChannel
	work          *tensor.Tensor
	each          int // elements of work that a part has
}

func newGridConv[T tensor.Float](b *ops.Binding, columns *tensor.Tensor) *gridConv[T] {
	shape := kernel.UnfoldShape{Channels: int(b.Int("InputChannel")), KernelH: int(b.Int("KernelH")), KernelW: int(b.Int("KernelW")),
		StrideH: int(b.Int("StrideH")), StrideW: int(b.Int("StrideW")), DilationH: 1, DilationW: 1}
	shape.Up, shape.Left = shape.KernelH/2, shape.KernelW/2
	g := &gridConv[T]{pairing: pair(b, "ROW", "COLUMN", b.Int("StrideH"), b.Int("StrideW")), shape: shape, x: b.In("X"), w: b.In("W"), columns: columns,
		deep: int(b.In("W").Dims()[1]), channels: int(b.In("W").Dims()[0])}
	places := columns.Len() / max(1, g.deep)
	g.each = max(kernel.GemmWorkspace(g.channels, places, g.deep), kernel.GemmWorkspace(g.channels, g.deep, places), kernel.GemmWorkspace(g.deep, places, g.channels))
	g.work = b.Scratch(tensor.Of[T](), b.Parts()*g.each)
	return g
}

// of returns the shape of the windows of a grid, and their number.
func (g *gridConv[T]) of(at grid) (kernel.UnfoldShape, int) {
	shape := g.shape
	shape.Height, shape.Width, shape.OutH, shape.OutW = at.height, at.width, at.coarseHeight, at.coarseWidth
	return shape, at.coarseHeight * at.coarseWidth
}

// window returns the windows of a grid.
func (g *gridConv[T]) window(all *tensor.Tensor, at grid, places int) []T {
	return tensor.Data[T](all)[g.deep*at.coarseBefore:][:g.deep*places]
}

// input returns the elements of a grid of X, or of its gradient.
func (g *gridConv[T]) input(all *tensor.Tensor, at grid) []T {
	return tensor.Data[T](all)[g.shape.Channels*at.before:][:g.shape.Channels*at.height*at.width]
}

// output returns the elements of a grid of Out, or of its gradient.
func (g *gridConv[T]) output(all *tensor.Tensor, at grid, places int) []T {
	return tensor.Data[T](all)[g.channels*at.coarseBefore:][:g.channels*places]
}

func bindVarConv[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	out, columns := b.Out("Out"), b.Out("Col")
	if columns == nil {
		channels, deep := int(b.In("W").Dims()[0]), int(b.In("W").Dims()[1])
		columns = b.Scratch(tensor.Of[T](), out.Len()/channels*deep)
	}
	g := newGridConv[T](b, columns)
	return b.Loops(g.count(b, measured{"X", g.x, g.shape.Channels, false}, measured{"Out", out, g.channels, true}, measured{"Col", columns, g.deep, true}),
		g.pairing.each(func(part int, at grid) {
			shape, places := g.of(at)
			windows := g.window(g.columns, at, places)
			kernel.Unfold(&shape, windows, g.input(g.x, at), 0, 1)
			if out != nil {
				kernel.Gemm(false, false, g.channels, places, g.deep, 1, tensor.Data[T](g.w), g.deep, windows, places, 0, g.output(out, at, places), places,
					ops.Part(tensor.Data[T](g.work), part, g.each))
			}
		}, "W"))
}

func bindVarConvGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	g, dout := newGridConv[T](b, b.In("Col")), b.In(program.GradName("Out"))
	dx, dw := b.Out(program.GradName("X")), b.Out(program.GradName("W"))
	loops := []ops.Loop{g.count(b, measured{"X", g.x, g.shape.Channels, false}, measured{"Out@GRAD", dout, g.channels, true}, measured{"Col", g.columns, g.deep, true})}
	if dx != nil {
		dwindows := b.Scratch(tensor.Of[T](), g.columns.Len())
		loops = append(loops, g.pairing.each(func(part int, at grid) {
			shape, places := g.of(at)
			windows := g.window(dwindows, at, places)
			kernel.Gemm(true, false, g.deep, places, g.channels, 1, tensor.Data[T](g.w), g.deep, g.output(dout, at, places), places, 0, windows, places,
				ops.Part(tensor.Data[T](g.work), part, g.each))
			kernel.UnfoldGrad(&shape, g.input(dx, at), windows, 0, 1)
		}, "W"))
	}
	if dw != nil {
		loops = append(loops, ops.Loop{N: g.channels, Apart: true, Writes: []string{program.GradName("W")}, Run: func(part, from, to int) error {
			sums := tensor.Data[T](dw)[from*g.deep : to*g.deep]
			clear(sums)
			for i := range g.rows.n {
				at := g.at(i)
				_, places := g.of(at)
				kernel.Gemm(false, true, to-from, g.deep, places, 1, tail(g.output(dout, at, places), from*places), places, g.window(g.columns, at, places), places, 1, sums,
					g.deep, ops.Part(tensor.Data[T](g.work), part, g.each))
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
