package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An interpolation resizes images, lines or volumes.
type interpolation struct {
	name, method, doc string
	axes              int  // that are resized
	later             bool // the form of Paddle 2, whose scale has a number for each axis
}

// interpolationSizes are the attributes of the size of the output, the last axis first.
var interpolationSizes = []string{"out_w", "out_h", "out_d"}

func init() {
	for _, later := range []bool{false, true} {
		for _, i := range []interpolation{
			{"nearest_interp", "nearest", "Resizes images: each pixel is that of X which is nearest to its place.", 2, later},
			{"bilinear_interp", "bilinear", "Resizes images: each pixel is interpolated linearly, down and to the right, between the four of X around its place.", 2, later},
			{"bicubic_interp", "bicubic", "Resizes images: each pixel is interpolated between the 16 of X around its place, by cubic convolution (Keys 1981).", 2, later},
			{"linear_interp", "linear", "Resizes lines: each element is interpolated linearly between the two of X around its place.", 1, later},
			{"trilinear_interp", "trilinear", "Resizes volumes: each element is interpolated linearly, along each axis, between the eight of X around its place.", 3, later},
		} {
			if later {
				i.name += "_v2"
			}
			i.register()
		}
	}
}

// of returns the interpolation for X of these dims: that of Paddle 2 which takes the nearest element resizes volumes, too.
func (i interpolation) of(dims []int64) interpolation {
	if i.method == "nearest" && i.later && len(dims) == 5 {
		i.axes = 3
	}
	return i
}

func (i interpolation) register() {
	layouts := []string{"[N, C, W], or [N, W, C]", "[N, C, H, W], or [N, H, W, C]", "[N, C, D, H, W], or [N, D, H, W, C]"}
	scale := ops.Attr{Name: "scale", Doc: "size of Out over that of X, before out_h and out_w; 0 for none", Default: float32(0), Tensor: "Scale"}
	if i.later {
		scale.Default = []float32{}
		scale.Doc = "size of Out over that of X, one number or one for each axis, before out_h and out_w; empty for none"
	}
	layout := layouts[i.axes-1]
	if i.of(make([]int64, 5)) != i {
		layout += ", or volumes " + layouts[2]
	}
	opkit.Register(ops.Def{
		Type: i.name,
		Doc: i.doc + " Place o of an axis lies at o*r in X, where r is the size of X over that of Out; with align_corners r is (size of X - 1)/(size of Out - 1), " +
			"and without it, bicubic and with align_mode 0 linear ones lie at (o + 0.5)*r - 0.5.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float " + layout},
			{Name: "OutSize", Doc: "the size of Out, as known numbers, before scale", Dispensable: true},
			{Name: "SizeTensor", Doc: "the size of Out, as variables of one known number each, before scale", Dispensable: true, Duplicable: true},
			{Name: "Scale", Doc: "known numbers in place of scale", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "laid out as X"}},
		Attrs: []ops.Attr{
			{Name: "out_d", Doc: "depth of Out", Default: int32(0)},
			{Name: "out_h", Doc: "height of Out", Default: int32(0)},
			{Name: "out_w", Doc: "width of Out", Default: int32(0)},
			{Name: "out_size", Doc: "the numbers of OutSize or SizeTensor; Fluid has only these", Default: []int32{}, Tensor: "OutSize", Tensors: "SizeTensor"},
			scale,
			{Name: "interp_method", Doc: i.method, Default: i.method},
			{Name: "align_corners", Doc: "whether the corners of X and Out lie upon each other", Default: true},
			{Name: "align_mode", Doc: "0 or 1: see above", Default: int32(1)},
			dataFormatAttr("data_layout")},
		Infer:     i.infer,
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("X", bindInterpolation[float32](i), bindInterpolation[float64](i)),
		MixesRows: opkit.RowsOnlyIn("X"),
	}, opkit.Gradient{
		Doc:    "each element of dOut gives dX, at the places that it is computed from, its share by weight.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(4),
		Bind:   opkit.BindFloats("X", bindInterpolationGrad[float32](i), bindInterpolationGrad[float64](i)),
	})
}

func (i interpolation) infer(s *ops.Shapes) error {
	i = i.of(s.In("X").Dims)
	if err := checkImages(s, "data_layout", 2+i.axes); err != nil {
		return err
	}
	if s.Str("interp_method") != i.method {
		return opkit.BadAttr(s, "interp_method", "%s", i.method)
	}
	if mode := s.Int("align_mode"); mode != 0 && mode != 1 {
		return opkit.BadAttr(s, "align_mode", "0 or 1")
	}
	last := channelsLast(s, "data_layout")
	x := firstly(s.In("X").Dims, last)
	for _, extent := range x[2:] {
		if extent == 0 {
			return s.Errorf("X", "images with pixels")
		}
	}
	size, err := i.size(s, x[2:])
	if err != nil {
		return err
	}
	s.Set("Out", s.In("X").DType, lastly(append([]int64{x[0], x[1]}, size...), last)...)
	return nil
}

// scales returns the numbers of scale for each axis, NaN for an unknown one, and nil if the op has no positive ones. bad says that it has some that do not fit.
func (i interpolation) scales(a opkit.Attributed) (scales []float64, bad bool) {
	given, ok := a.Op().Floats("scale")
	if !ok {
		one, _ := a.Op().Float("scale")
		given = []float64{one}
	}
	for axis := range i.axes {
		switch {
		case len(given) == 1:
			scales = append(scales, given[0])
		case len(given) == i.axes:
			scales = append(scales, given[axis])
		default:
			return nil, len(given) > 0
		}
	}
	positive := 0
	for _, scale := range scales {
		if !(scale <= 0) { // NaN is unknown
			positive++
		}
	}
	if positive < i.axes {
		return nil, positive > 0
	}
	return scales, false
}

// size returns the extents of the output for an image of the given ones.
func (i interpolation) size(s *ops.Shapes, image []int64) ([]int64, error) {
	given := s.Ints("out_size")
	size, attr := make([]int64, i.axes), "scale"
	scales, bad := i.scales(s)
	switch {
	case len(given) > 0:
		if attr = "out_size"; len(given) != i.axes {
			return nil, opkit.BadAttr(s, attr, "%d numbers", i.axes)
		}
		copy(size, given)
	case bad:
		return nil, opkit.BadAttr(s, attr, "a number above 0, or %d of them", i.axes)
	case scales != nil:
		for axis, extent := range image {
			if size[axis] = ops.Open; extent >= 0 && scales[axis] == scales[axis] {
				size[axis] = int64(min(float32(extent)*float32(scales[axis]), math.MaxInt32))
			}
		}
	default:
		for axis := range size {
			attr = interpolationSizes[i.axes-1-axis]
			size[axis] = s.Int(attr)
		}
	}
	for axis, n := range size {
		switch {
		case n == ops.Open:
			size[axis] = program.Unknown
		case n < 1 || n >= math.MaxInt32:
			return nil, opkit.BadAttr(s, attr, "a size of Out in [1, %d)", math.MaxInt32)
		}
	}
	return size, nil
}

// resamplings returns what the kernels do along depth, height and width.
func resamplings[T tensor.Float](i interpolation, b *ops.Binding, x, out []int64) (made [3]*kernel.Resampling[T]) {
	for axis := range made {
		made[axis] = kernel.NewNearestResampling[T](1, 1, 1, false)
	}
	align, centred := b.Bool("align_corners"), b.Int("align_mode") == 0
	scales, _ := i.scales(b)
	for axis := range i.axes {
		in, to := int(x[2+axis]), int(out[2+axis])
		ratio := float32(in) / float32(to)
		switch {
		case align && to > 1:
			ratio = float32(in-1) / float32(to-1)
		case align:
			ratio = 0
		case i.later && scales != nil && len(b.Ints("out_size")) == 0:
			ratio = float32(1 / scales[axis])
		}
		at := 3 - i.axes + axis
		switch i.method {
		case "nearest":
			made[at] = kernel.NewNearestResampling[T](in, to, ratio, align)
		case "bicubic":
			made[at] = kernel.NewCubicResampling[T](in, to, ratio, align)
		default:
			made[at] = kernel.NewLinearResampling[T](in, to, ratio, centred && !align)
		}
	}
	return made
}

func bindInterpolation[T tensor.Float](i interpolation) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		a := &arranged[T]{b: b, last: channelsLast(b, "data_layout")}
		dims := firstly(b.In("X").Dims(), a.last)
		r := resamplings[T](i.of(dims), b, dims, firstly(b.Out("Out").Dims(), a.last))
		x, to := a.in("X"), a.out("Out")
		each, volumes := kernel.ResampleWorkspace(r[0], r[1], r[2]), opkit.Count(dims[:2])
		work := b.Scratch(x.DType(), b.Parts()*each)
		return a.loops(ops.Loop{N: volumes, Reads: []string{"X"}, Run: func(part, from, till int) error {
			kernel.Resample3D(r[0], r[1], r[2], till-from, opkit.Owned[T](to, from, till, volumes), opkit.Owned[T](x, from, till, volumes),
				ops.Part(tensor.Data[T](work), part, each))
			return nil
		}})
	}
}

func bindInterpolationGrad[T tensor.Float](i interpolation) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		a := &arranged[T]{b: b, last: channelsLast(b, "data_layout")}
		dims := firstly(b.Out("X@GRAD").Dims(), a.last)
		r := resamplings[T](i.of(dims), b, dims, firstly(b.In("Out@GRAD").Dims(), a.last))
		dout, dx := a.in("Out@GRAD"), a.out("X@GRAD")
		each, volumes := kernel.ResampleWorkspace(r[0], r[1], r[2]), opkit.Count(dims[:2])
		work := b.Scratch(dx.DType(), b.Parts()*each)
		return a.loops(ops.Loop{N: volumes, Reads: []string{"Out@GRAD"}, Run: func(part, from, to int) error {
			kernel.Resample3DGrad(r[0], r[1], r[2], to-from, opkit.Owned[T](dx, from, to, volumes), opkit.Owned[T](dout, from, to, volumes),
				ops.Part(tensor.Data[T](work), part, each))
			return nil
		}})
	}
}
