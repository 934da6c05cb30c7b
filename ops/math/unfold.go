package math

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "unfold",
		Doc:     "Shows the windows that slide over images as columns: a row for each channel and place in the window, a column for each position of the window.",
		Inputs:  in("X", "float [N, C, H, W]"),
		Outputs: out("Y", "[N, C*kernel height*kernel width, positions], of the type of X"),
		Attrs:   windowAttrs,
		Infer:   inferUnfold,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindUnfold[float32]("X", "Y"), bindUnfold[float64]("X", "Y")),
	}, opkit.Gradient{
		Doc: "dX sums, for each element, dY of all windows that show it.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindUnfoldGrad[float32]("Y@GRAD", "X@GRAD"), bindUnfoldGrad[float64]("Y@GRAD", "X@GRAD")),
	})
	opkit.Register(ops.Def{
		Type:    "fold",
		Doc:     "Makes images of columns that show windows, as unfold does backwards: each element of Y is the sum of what all windows show at its place.",
		Inputs:  in("X", "float [N, C*kernel height*kernel width, positions], laid out as the result of unfold"),
		Outputs: out("Y", "[N, C, H, W], of the type of X"),
		Attrs:   append([]ops.Attr{{Name: "output_sizes", Doc: "H and W", Kind: []int32{}}}, windowAttrs...),
		Infer:   inferFold,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindUnfoldGrad[float32]("X", "Y"), bindUnfoldGrad[float64]("X", "Y")),
	}, opkit.Gradient{
		Doc: "dX shows the windows of dY.", Inputs: []string{"X"}, Wrt: []string{"X"}, StandIn: map[string]string{"X": "Y@GRAD"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Y@GRAD", bindUnfold[float32]("Y@GRAD", "X@GRAD"), bindUnfold[float64]("Y@GRAD", "X@GRAD")),
	})
}

// windowAttrs say how a window slides over images.
var windowAttrs = []ops.Attr{
	{Name: "kernel_sizes", Doc: "height and width of the window", Kind: []int32{}},
	{Name: "strides", Doc: "steps of the window", Default: []int32{1, 1}},
	{Name: "paddings", Doc: "zeros above, left of, below and right of the image", Default: []int32{0, 0, 0, 0}},
	{Name: "dilations", Doc: "distances of elements in the window", Default: []int32{1, 1}}}

// positions returns how many places a window has along an axis, program.Unknown if the extent is open.
func positions(extent, before, after, size, stride, dilation int64) int64 {
	if extent < 0 {
		return program.Unknown
	}
	return (extent+before+after-dilation*(size-1)-1)/stride + 1
}

func inferUnfold(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, k := s.In("X").Dims, s.Ints("kernel_sizes")
	windows, err := countWindows(s, x[2:])
	if err != nil {
		return err
	}
	s.Set("Y", s.In("X").DType, x[0], ops.Product([]int64{x[1], k[0], k[1]}), windows)
	s.ShareLoD("Y", "X")
	return nil
}

func inferFold(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 3); err != nil {
		return err
	}
	x, k, size := s.In("X").Dims, s.Ints("kernel_sizes"), s.Ints("output_sizes")
	if len(size) != 2 || size[0] < 1 || size[1] < 1 {
		return opkit.BadAttr(s, "output_sizes", "two numbers, at least 1")
	}
	windows, err := countWindows(s, size)
	if err != nil {
		return err
	}
	area := k[0] * k[1]
	switch {
	case x[1] >= 0 && x[1]%area != 0:
		return s.Errorf("X", "%d rows for each channel, those of a window of %v", area, k)
	case !opkit.Agree(x[2], windows):
		return s.Errorf("X", "%d columns, the positions of a window of %v in images of %v", windows, k, size)
	}
	channels := x[1]
	if channels >= 0 {
		channels /= area
	}
	s.Set("Y", s.In("X").DType, x[0], channels, size[0], size[1])
	s.ShareLoD("Y", "X")
	return nil
}

// countWindows checks the attributes of windows over images of a height and a width, and returns how many positions there are, program.Unknown if an extent is open.
func countWindows(s *ops.Shapes, size []int64) (int64, error) {
	for name, rule := range opkit.InOrder(map[string]struct {
		n     int
		least int64
	}{"kernel_sizes": {2, 1}, "strides": {2, 1}, "paddings": {4, 0}, "dilations": {2, 1}}) {
		values := s.Ints(name)
		ok := len(values) == rule.n
		for _, v := range values {
			ok = ok && v >= rule.least && v <= math.MaxInt16
		}
		if !ok {
			return 0, opkit.BadAttr(s, name, "%d numbers from %d to %d", rule.n, rule.least, math.MaxInt16)
		}
	}
	k, stride, pad, dilation := s.Ints("kernel_sizes"), s.Ints("strides"), s.Ints("paddings"), s.Ints("dilations")
	windows := int64(1)
	for i, extent := range size {
		if extent >= 0 && extent+pad[i]+pad[2+i] < dilation[i]*(k[i]-1)+1 || extent > math.MaxInt32 {
			return 0, s.Errorf("X", "images that a window of %v fits into", k)
		}
		if n := positions(extent, pad[i], pad[2+i], k[i], stride[i], dilation[i]); n < 0 || windows < 0 {
			windows = program.Unknown
		} else {
			windows *= n
		}
	}
	return windows, nil
}

// unfoldShape describes the windows over images of dims x.
func unfoldShape(b *ops.Binding, x []int64) *kernel.UnfoldShape {
	k, stride, pad, dilation := b.Ints("kernel_sizes"), b.Ints("strides"), b.Ints("paddings"), b.Ints("dilations")
	return &kernel.UnfoldShape{Channels: int(x[1]), Height: int(x[2]), Width: int(x[3]), KernelH: int(k[0]), KernelW: int(k[1]), StrideH: int(stride[0]),
		StrideW: int(stride[1]), Up: int(pad[0]), Left: int(pad[1]), DilationH: int(dilation[0]), DilationW: int(dilation[1]),
		OutH: int(positions(x[2], pad[0], pad[2], k[0], stride[0], dilation[0])), OutW: int(positions(x[3], pad[1], pad[3], k[1], stride[1], dilation[1]))}
}

// bindUnfold shows the windows of images in one slot as columns in another.
func bindUnfold[T tensor.Float](images, columns string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In(images), b.Out(columns)
		shape := unfoldShape(b, x.Dims())
		return b.Loops(ops.Loop{N: int(x.Dims()[0]), Reads: []string{images}, Run: func(_, from, till int) error {
			kernel.Unfold(shape, tensor.Data[T](to), tensor.Data[T](x), from, till)
			return nil
		}})
	}
}

// bindUnfoldGrad sums columns in one slot to images in another.
func bindUnfoldGrad[T tensor.Float](columns, images string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In(columns), b.Out(images)
		shape := unfoldShape(b, to.Dims())
		return b.Loops(ops.Loop{N: int(to.Dims()[0]), Reads: []string{columns}, Run: func(_, from, till int) error {
			kernel.UnfoldGrad(shape, tensor.Data[T](to), tensor.Data[T](x), from, till)
			return nil
		}})
	}
}
