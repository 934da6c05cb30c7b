package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A pooling reduces windows of images or volumes: pool2d and pool3d.
type pooling struct {
	axes          int // of an image or volume
	name, doc     string
	layout, sizes string // for the documentation
}

func init() {
	pooling{
		axes: 2, name: "pool2d", layout: "[N, C, H, W], or [N, H, W, C]", sizes: "height and width",
		doc: "Takes the largest element or the mean of each window that moves over an image: Out[n,c,y,x] = max or mean of " +
			"X[n,c] in the window of ksize whose corner is (y*stride - padding, x*stride - padding). Padding is never looked at. With adaptive " +
			"the output is ksize large, and window y has the rows from floor(y*H/height) up to ceil((y+1)*H/height). With data_format NHWC the channels " +
			"of images come last.",
	}.register()
	pooling{
		axes: 3, name: "pool3d", layout: "[N, C, D, H, W], or [N, D, H, W, C]", sizes: "depth, height and width",
		doc: "Takes the largest element or the mean of each window that moves over a volume: pool2d with a depth in front of height and width.",
	}.register()
}

func (p pooling) register() {
	steps, none := make([]int32, p.axes), make([]int32, p.axes)
	kernel.Fill(steps, 1)
	opkit.Register(opkit.Open(opkit.ByVariables(ops.Def{
		Type: p.name, Doc: p.doc,
		Inputs:  []ops.Slot{{Name: "X", Doc: "float " + p.layout}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "laid out as X, of extents (extent - ksize + paddings)/strides + 1; the division rounds up with ceil_mode"}},
		Attrs: []ops.Attr{
			{Name: "pooling_type", Doc: "max or avg", Kind: ""},
			{Name: "ksize", Doc: p.sizes + " of the window, with adaptive of the output", Kind: []int32(nil)},
			{Name: "global_pooling", Doc: "whether the window is the whole image; ksize, strides and paddings do not count then", Default: false},
			{Name: "strides", Doc: "steps of the window along each axis, at least 1", Default: steps},
			{Name: "paddings", Doc: paddingsDoc + "; less than the window", Default: none},
			{Name: "exclusive", Doc: "whether a mean divides by the elements within the image and not by the size of the window", Default: true},
			{Name: "adaptive", Doc: "whether ksize is the extent of the output; strides and paddings do not count then", Default: false},
			{Name: "ceil_mode", Doc: "whether a last window may reach over the edge", Default: false},
			paddingAlgorithmAttr, dataFormatAttr("data_format")},
		Infer: p.infer,
		Cost:  poolingCost,
		Bind:  opkit.BindFloats("X", bindPooling[float32], bindPooling[float64]),
	}, "ksize")), opkit.Gradient{
		Doc:    "max gives dOut to the first largest element of the window, avg an equal share to each element within the image.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   poolingCost,
		Bind:   opkit.BindFloats("X", bindPoolingGrad[float32], bindPoolingGrad[float64]),
	})
}

func (p pooling) infer(s *ops.Shapes) error {
	if err := checkImages(s, "data_format", 2+p.axes); err != nil {
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
		return nil, opkit.UnsupportedAttr(s, "adaptive", "false with global_pooling: the op without adaptive, or with the wanted ksize and without global_pooling")
	case global:
		return ones(n), nil
	case opensPlaces(s, "ksize", n):
		return slices.Repeat([]int64{program.Unknown}, n), nil
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
			return nil, opkit.UnsupportedAttr(s, "paddings", fmt.Sprintf("less than ksize %v: a pad2d or pad3d before the op adds more", size))
		}
	}
	places, bad := w.places(image, s.Bool("ceil_mode"))
	if bad >= 0 {
		return nil, opkit.BadAttr(s, "ksize", "no larger than the padded X %v", s.In("X").Dims)
	}
	return places, nil
}

// opensPlaces reports whether a variable gives the n numbers of an attribute, and inference does not know them all.
func opensPlaces(s *ops.Shapes, name string, n int) bool {
	v := s.Ints(name)
	return len(v) == n && slices.Contains(v, ops.Open)
}

// poolingCost counts one operation for each element of each window.
func poolingCost(s *ops.Shapes) ops.Cost {
	x, out := s.In("X").Dims, append(s.Outs("Out"), s.Ins("Out@GRAD")...)[0].Dims
	if s.Bool("global_pooling") || s.Bool("adaptive") {
		return ops.Cost{Flops: opkit.Size(x), Bytes: opkit.Bytes(s)}
	}
	return ops.Cost{Flops: opkit.Size([]int64{opkit.Size(out), opkit.Size(s.Ints("ksize"))}), Bytes: opkit.Bytes(s)}
}

// poolingShape collects what the kernels need to know. Without elements there are no volumes.
func poolingShape(b *ops.Binding, x, out []int64, last bool) (shape *kernel.Pool3DShape, volumes int) {
	x, out = firstly(x, last), firstly(out, last)
	shape = &kernel.Pool3DShape{Depth: kernel.PoolAxis{In: 1, Out: 1, Kernel: 1, Stride: 1}}
	axes := []*kernel.PoolAxis{&shape.Depth, &shape.Height, &shape.Width}[5-len(x):]
	for i, a := range axes {
		*a = kernel.PoolAxis{In: int(x[2+i]), Out: int(out[2+i]), Kernel: int(x[2+i]), Stride: 1, Adaptive: b.Bool("adaptive")}
	}
	if !b.Bool("global_pooling") && !b.Bool("adaptive") {
		w := windowsOf(b, b.Ints("ksize"), x[2:])
		for i, a := range axes {
			a.Kernel, a.Stride, a.Padding = int(w.size[i]), int(w.stride[i]), int(w.before[i])
		}
	}
	if opkit.Count(out) == 0 {
		return shape, 0
	}
	return shape, opkit.Count(x[:2])
}

// imageShape returns the pooling of images of a shape whose depth is 1.
func imageShape(s *kernel.Pool3DShape) *kernel.Pool2DShape {
	return &kernel.Pool2DShape{
		InHeight: s.Height.In, InWidth: s.Width.In, OutHeight: s.Height.Out, OutWidth: s.Width.Out,
		KernelHeight: s.Height.Kernel, KernelWidth: s.Width.Kernel, StrideHeight: s.Height.Stride, StrideWidth: s.Width.Stride,
		PaddingTop: s.Height.Padding, PaddingLeft: s.Width.Padding, Adaptive: s.Width.Adaptive,
	}
}

func bindPooling[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	dims := b.In("X").Dims()
	shape, volumes := poolingShape(b, dims, b.Out("Out").Dims(), a.last)
	image := imageShape(shape)
	x, to := a.in("X"), a.out("Out")
	largest, exclusive, lines := b.Str("pooling_type") == "max", b.Bool("exclusive"), b.Scratch(x.DType(), b.Parts()*shape.Width.In)
	return a.loops(ops.Loop{N: volumes, Reads: []string{"X"}, Run: func(part, from, till int) error {
		y, in := opkit.Owned[T](to, from, till, volumes), opkit.Owned[T](x, from, till, volumes)
		line := ops.Part(tensor.Data[T](lines), part, shape.Width.In)
		switch {
		case !largest:
			kernel.AvgPool3D(shape, till-from, exclusive, y, in)
		case len(dims) == 4:
			kernel.MaxPool2D(image, till-from, y, in, line)
		default:
			kernel.MaxPool3D(shape, till-from, y, in, line)
		}
		return nil
	}})
}

func bindPoolingGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	dims := b.In("X").Dims()
	shape, volumes := poolingShape(b, dims, b.In("Out@GRAD").Dims(), a.last)
	image := imageShape(shape)
	x, dout, dx := a.in("X"), a.in("Out@GRAD"), a.out("X@GRAD")
	largest, exclusive := b.Str("pooling_type") == "max", b.Bool("exclusive")
	return a.loops(ops.Loop{N: volumes, Reads: []string{"X", "Out@GRAD"}, Run: func(_, from, to int) error {
		din, in, g := opkit.Owned[T](dx, from, to, volumes), opkit.Owned[T](x, from, to, volumes), opkit.Owned[T](dout, from, to, volumes)
		switch {
		case !largest:
			kernel.AvgPool3DGrad(shape, to-from, exclusive, din, g)
		case len(dims) == 4:
			kernel.MaxPool2DGrad(image, to-from, din, in, g)
		default:
			kernel.MaxPool3DGrad(shape, to-from, din, in, nil, g)
		}
		return nil
	}})
}
