package nn

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
		Type: "pool2d",
		Doc: "Takes the largest element or the mean of each window that moves over an image: Out[n,c,y,x] = max or mean of " +
			"X[n,c] in the window of ksize whose corner is (y*stride - padding, x*stride - padding). Padding is never looked at.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, C, H, W]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, C, (H - height + 2*padding)/stride + 1, ...]; the division rounds up with ceil_mode"}},
		Attrs: []ops.Attr{
			{Name: "pooling_type", Doc: "max or avg", Kind: ""},
			{Name: "ksize", Doc: "height and width of the window", Kind: []int32(nil)},
			{Name: "global_pooling", Doc: "whether the window is the whole image; ksize, strides and paddings do not count then", Default: false},
			{Name: "strides", Doc: "steps of the window down and to the right, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "rows above and below, and columns left and right, less than the window", Default: []int32{0, 0}},
			{Name: "exclusive", Doc: "whether a mean divides by the elements within the image and not by the size of the window", Default: true},
			{Name: "adaptive", Doc: "only false; in Fluid, whether ksize is the extent of the output", Default: false},
			{Name: "ceil_mode", Doc: "whether a last window may reach over the edge", Default: false},
			paddingAlgorithmAttr, dataFormatAttr("data_format")},
		Infer: inferPool2D,
		Cost:  poolingCost,
		Bind:  opkit.BindFloats("X", bindPool2D[float32], bindPool2D[float64]),
	}, opkit.Gradient{
		Doc:    "max gives dOut to the first largest element of the window, avg an equal share to each element within the image.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   poolingCost,
		Bind:   opkit.BindFloats("X", bindPool2DGrad[float32], bindPool2DGrad[float64]),
	})
}

func inferPool2D(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := checkImages(s); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	if kind := s.Str("pooling_type"); kind != "max" && kind != "avg" {
		return opkit.BadAttr(s, "pooling_type", "max or avg")
	}
	if s.Bool("adaptive") {
		return opkit.UnsupportedAttr(s, "adaptive", "false")
	}
	places, err := poolingPlaces(s)
	if err != nil {
		return err
	}
	m := s.In("X")
	s.Set("Out", m.DType, m.Dims[0], m.Dims[1], places[0], places[1])
	return nil
}

// poolingPlaces returns the extents of the output's height and width.
func poolingPlaces(s *ops.Shapes) (places [2]int64, err error) {
	x := s.In("X").Dims[2:]
	if x[0] == 0 || x[1] == 0 || max(x[0], x[1]) > math.MaxInt32 {
		return places, s.Errorf("X", "images of height and width in [1, %d]", math.MaxInt32)
	}
	if s.Bool("global_pooling") {
		return [2]int64{1, 1}, nil
	}
	size, err := twoInts(s, "ksize", 1)
	if err != nil {
		return places, err
	}
	stride, err := twoInts(s, "strides", 1)
	if err != nil {
		return places, err
	}
	padding, err := twoInts(s, "paddings", 0)
	if err != nil {
		return places, err
	}
	for i := range places {
		places[i] = program.Unknown
		if padding[i] >= size[i] {
			return places, opkit.BadAttr(s, "paddings", "less than ksize %v", size)
		}
		if x[i] < 0 {
			continue
		}
		if x[i]+2*padding[i] < size[i] {
			return places, opkit.BadAttr(s, "ksize", "no larger than the padded X %v", s.In("X").Dims)
		}
		places[i] = int64(kernel.PoolOutSize(int(x[i]), int(size[i]), int(stride[i]), int(padding[i]), s.Bool("ceil_mode")))
	}
	return places, nil
}

// poolingCost counts one operation for each element of each window.
func poolingCost(s *ops.Shapes) ops.Cost {
	window := s.In("X").Dims[2:]
	if !s.Bool("global_pooling") {
		window = s.Ints("ksize")
	}
	out := append(s.Outs("Out"), s.Ins("Out@GRAD")...)[0].Dims
	return ops.Cost{Flops: opkit.Size([]int64{opkit.Size(out), opkit.Size(window)}), Bytes: opkit.Bytes(s)}
}

// poolingShape collects what the kernels need to know. Without elements there are no planes.
func poolingShape(b *ops.Binding, x, out []int64) (shape kernel.Pool2DShape, planes int) {
	shape = kernel.Pool2DShape{
		InHeight: int(x[2]), InWidth: int(x[3]), OutHeight: int(out[2]), OutWidth: int(out[3]),
		KernelHeight: int(x[2]), KernelWidth: int(x[3]), StrideHeight: 1, StrideWidth: 1,
	}
	if !b.Bool("global_pooling") {
		size, stride, padding := b.Ints("ksize"), b.Ints("strides"), b.Ints("paddings")
		shape.KernelHeight, shape.KernelWidth = int(size[0]), int(size[1])
		shape.StrideHeight, shape.StrideWidth = int(stride[0]), int(stride[1])
		shape.PaddingHeight, shape.PaddingWidth = int(padding[0]), int(padding[1])
	}
	if opkit.Count(out) == 0 {
		return shape, 0
	}
	return shape, opkit.Count(x[:2])
}

func bindPool2D[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	shape, planes := poolingShape(b, x.Dims(), to.Dims())
	largest, exclusive := b.Str("pooling_type") == "max", b.Bool("exclusive")
	return opkit.Loop(b, planes, func(from, till int) {
		y, images := opkit.Owned[T](to, from, till, planes), opkit.Owned[T](x, from, till, planes)
		if largest {
			kernel.MaxPool2D(&shape, till-from, y, nil, images)
		} else {
			kernel.AvgPool2D(&shape, till-from, exclusive, y, images)
		}
	})
}

func bindPool2DGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	shape, planes := poolingShape(b, x.Dims(), dout.Dims())
	largest, exclusive := b.Str("pooling_type") == "max", b.Bool("exclusive")
	return opkit.Loop(b, planes, func(from, to int) {
		dimages, images, g := opkit.Owned[T](dx, from, to, planes), opkit.Owned[T](x, from, to, planes), opkit.Owned[T](dout, from, to, planes)
		if largest {
			kernel.MaxPool2DGrad(&shape, to-from, dimages, images, nil, g)
		} else {
			kernel.AvgPool2DGrad(&shape, to-from, exclusive, dimages, g)
		}
	})
}
