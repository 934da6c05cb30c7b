package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "pool2d",
		Doc: "Takes the largest element or the mean of each window that moves over an image: Out[n,c,y,x] = max or mean of " +
			"X[n,c] in the window of ksize whose corner is (y*stride - padding, x*stride - padding). Padding is never looked at. With adaptive " +
			"the output is ksize large, and window y has the rows from floor(y*H/height) up to ceil((y+1)*H/height). With data_format NHWC the channels " +
			"of images come last.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, C, H, W], or [N, H, W, C]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, C, (H - height + paddings)/stride + 1, ...], laid out as X; the division rounds up with ceil_mode"}},
		Attrs: []ops.Attr{
			{Name: "pooling_type", Doc: "max or avg", Kind: ""},
			{Name: "ksize", Doc: "height and width of the window, with adaptive of the output", Kind: []int32(nil)},
			{Name: "global_pooling", Doc: "whether the window is the whole image; ksize, strides and paddings do not count then", Default: false},
			{Name: "strides", Doc: "steps of the window down and to the right, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: paddingsDoc + "; less than the window", Default: []int32{0, 0}},
			{Name: "exclusive", Doc: "whether a mean divides by the elements within the image and not by the size of the window", Default: true},
			{Name: "adaptive", Doc: "whether ksize is the extent of the output; strides and paddings do not count then", Default: false},
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
	if err := checkLayout(s, "data_format"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	if kind := s.Str("pooling_type"); kind != "max" && kind != "avg" {
		return opkit.BadAttr(s, "pooling_type", "max or avg")
	}
	last := channelsLast(s, "data_format")
	x := firstly(s.In("X").Dims, last)
	places, err := poolingPlaces(s, x[2:])
	if err != nil {
		return err
	}
	s.Set("Out", s.In("X").DType, lastly(append([]int64{x[0], x[1]}, places...), last)...)
	return nil
}

// poolingPlaces returns the extents of the output of an op that pools images of these extents.
func poolingPlaces(s *ops.Shapes, image []int64) ([]int64, error) {
	n := len(image)
	for _, extent := range image {
		if extent == 0 || extent > math.MaxInt32 {
			return nil, s.Errorf("X", "images of extents in [1, %d]", math.MaxInt32)
		}
	}
	switch global, adaptive := s.Bool("global_pooling"), s.Bool("adaptive"); {
	case global && adaptive:
		return nil, opkit.BadAttr(s, "adaptive", "false with global_pooling")
	case global:
		return ones(n), nil
	case adaptive:
		return someInts(s, "ksize", n, 1)
	}
	size, err := someInts(s, "ksize", n, 1)
	if err != nil {
		return nil, err
	}
	if err := checkWindows(s, n); err != nil {
		return nil, err
	}
	w := windowsOf(s, size, image)
	for i := range n {
		if max(w.before[i], w.after[i]) >= size[i] {
			return nil, opkit.BadAttr(s, "paddings", "less than ksize %v", size)
		}
	}
	places, bad := w.places(image, s.Bool("ceil_mode"))
	if bad >= 0 {
		return nil, opkit.BadAttr(s, "ksize", "no larger than the padded X %v", s.In("X").Dims)
	}
	return places, nil
}

// poolingCost counts one operation for each element of each window.
func poolingCost(s *ops.Shapes) ops.Cost {
	x, out := s.In("X").Dims, append(s.Outs("Out"), s.Ins("Out@GRAD")...)[0].Dims
	if s.Bool("global_pooling") || s.Bool("adaptive") {
		return ops.Cost{Flops: opkit.Size(x), Bytes: opkit.Bytes(s)}
	}
	return ops.Cost{Flops: opkit.Size([]int64{opkit.Size(out), opkit.Size(s.Ints("ksize"))}), Bytes: opkit.Bytes(s)}
}

// poolingShape collects what the kernels need to know. Without elements there are no planes.
func poolingShape(b *ops.Binding, x, out []int64) (shape kernel.Pool2DShape, planes int) {
	last := channelsLast(b, "data_format")
	x, out = firstly(x, last), firstly(out, last)
	shape = kernel.Pool2DShape{
		InHeight: int(x[2]), InWidth: int(x[3]), OutHeight: int(out[2]), OutWidth: int(out[3]),
		KernelHeight: int(x[2]), KernelWidth: int(x[3]), StrideHeight: 1, StrideWidth: 1, Adaptive: b.Bool("adaptive"),
	}
	if !b.Bool("global_pooling") && !shape.Adaptive {
		w := windowsOf(b, b.Ints("ksize"), x[2:])
		shape.KernelHeight, shape.KernelWidth = int(w.size[0]), int(w.size[1])
		shape.StrideHeight, shape.StrideWidth = int(w.stride[0]), int(w.stride[1])
		shape.PaddingTop, shape.PaddingLeft = int(w.before[0]), int(w.before[1])
	}
	if opkit.Count(out) == 0 {
		return shape, 0
	}
	return shape, opkit.Count(x[:2])
}

func bindPool2D[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	shape, planes := poolingShape(b, b.In("X").Dims(), b.Out("Out").Dims())
	x, to := a.in("X"), a.out("Out")
	largest, exclusive := b.Str("pooling_type") == "max", b.Bool("exclusive")
	return a.loops(ops.Loop{N: planes, Run: func(_, from, till int) error {
		y, images := opkit.Owned[T](to, from, till, planes), opkit.Owned[T](x, from, till, planes)
		if largest {
			kernel.MaxPool2D(&shape, till-from, y, nil, images)
		} else {
			kernel.AvgPool2D(&shape, till-from, exclusive, y, images)
		}
		return nil
	}})
}

func bindPool2DGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	shape, planes := poolingShape(b, b.In("X").Dims(), b.In("Out@GRAD").Dims())
	x, dout, dx := a.in("X"), a.in("Out@GRAD"), a.out("X@GRAD")
	largest, exclusive := b.Str("pooling_type") == "max", b.Bool("exclusive")
	return a.loops(ops.Loop{N: planes, Run: func(_, from, to int) error {
		dimages, images, g := opkit.Owned[T](dx, from, to, planes), opkit.Owned[T](x, from, to, planes), opkit.Owned[T](dout, from, to, planes)
		if largest {
			kernel.MaxPool2DGrad(&shape, to-from, dimages, images, nil, g)
		} else {
			kernel.AvgPool2DGrad(&shape, to-from, exclusive, dimages, g)
		}
		return nil
	}})
}
