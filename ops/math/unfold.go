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
		Attrs: []ops.Attr{
			{Name: "kernel_sizes", Doc: "height and width of the window", Kind: []int32{}},
			{Name: "strides", Doc: "steps of the window", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "zeros above, left of, below and right of the image", Default: []int32{0, 0, 0, 0}},
			{Name: "dilations", Doc: "distances of elements in the window", Default: []int32{1, 1}}},
		Infer: inferUnfold,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("X", bindUnfold[float32], bindUnfold[float64]),
	}, opkit.Gradient{
		Doc: "dX sums, for each element, dY of all windows that show it.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindUnfoldGrad[float32], bindUnfoldGrad[float64]),
	})
}

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
			return opkit.BadAttr(s, name, "%d numbers from %d to %d", rule.n, rule.least, math.MaxInt16)
		}
	}
	x, k, stride, pad, dilation := s.In("X").Dims, s.Ints("kernel_sizes"), s.Ints("strides"), s.Ints("paddings"), s.Ints("dilations")
	windows := int64(1)
	for i := range 2 {
		if x[2+i] >= 0 && x[2+i]+pad[i]+pad[2+i] < dilation[i]*(k[i]-1)+1 || x[2+i] > math.MaxInt32 {
			return s.Errorf("X", "images that a window of %v fits into", k)
		}
		if n := positions(x[2+i], pad[i], pad[2+i], k[i], stride[i], dilation[i]); n < 0 || windows < 0 {
			windows = program.Unknown
		} else {
			windows *= n
		}
	}
	s.Set("Y", s.In("X").DType, x[0], ops.Product([]int64{x[1], k[0], k[1]}), windows)
	s.ShareLoD("Y", "X")
	return nil
}

func unfoldShape(b *ops.Binding) *kernel.UnfoldShape {
	x, k, stride, pad, dilation := b.In("X").Dims(), b.Ints("kernel_sizes"), b.Ints("strides"), b.Ints("paddings"), b.Ints("dilations")
	return &kernel.UnfoldShape{Channels: int(x[1]), Height: int(x[2]), Width: int(x[3]), KernelH: int(k[0]), KernelW: int(k[1]), StrideH: int(stride[0]),
		StrideW: int(stride[1]), Up: int(pad[0]), Left: int(pad[1]), DilationH: int(dilation[0]), DilationW: int(dilation[1]),
		OutH: int(positions(x[2], pad[0], pad[2], k[0], stride[0], dilation[0])), OutW: int(positions(x[3], pad[1], pad[3], k[1], stride[1], dilation[1]))}
}

func bindUnfold[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	shape, x, to := unfoldShape(b), b.In("X"), b.Out("Y")
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(_, from, till int) error {
		kernel.Unfold(shape, tensor.Data[T](to), tensor.Data[T](x), from, till)
		return nil
	}})
}

func bindUnfoldGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	shape, dout, dx := unfoldShape(b), b.In("Y@GRAD"), b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: int(dx.Dims()[0]), Reads: []string{"Y@GRAD"}, Run: func(_, from, till int) error {
		kernel.UnfoldGrad(shape, tensor.Data[T](dx), tensor.Data[T](dout), from, till)
		return nil
	}})
}
