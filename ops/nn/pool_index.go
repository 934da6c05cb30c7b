package nn

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerPoolWithIndex("max_pool2d_with_index", "image", "[N, C, H, W]", 2)
	registerPoolWithIndex("max_pool3d_with_index", "volume", "[N, C, D, H, W]", 3)
}

// registerPoolWithIndex adds a pooling that tells where the largest elements are.
func registerPoolWithIndex(name, image, layout string, axes int) {
	steps, none := make([]int32, axes), make([]int32, axes)
	kernel.Fill(steps, 1)
	opkit.Register(ops.Def{
		Type:   name,
		Doc:    "Takes the largest element of each window that moves over an " + image + ", as pooling does, and says where it is.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float " + layout}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the largest elements"},
			{Name: "Mask", Doc: "int32, of the dims of Out: the place of each within its channel of X, counted row by row; the first of equals"}},
		Attrs: []ops.Attr{
			{Name: "ksize", Doc: "extents of the window, with adaptive of the output", Kind: []int32(nil)},
			{Name: "global_pooling", Doc: "whether the window is the whole " + image, Default: false},
			{Name: "adaptive", Doc: "whether ksize is the extent of the output", Default: false},
			{Name: "ceil_mode", Doc: "whether a window may end behind the padded " + image, Default: false},
			{Name: "strides", Doc: "steps of the window along each axis, at least 1", Default: steps},
			{Name: "paddings", Doc: "padding along each axis, the same on both sides; less than the window", Default: none}},
		Infer: func(s *ops.Shapes) error {
			if err := opkit.FloatSoFar(s, "X"); err != nil {
				return err
			}
			if err := s.Rank("X", 2+axes); err != nil {
				return err
			}
			x := s.In("X").Dims
			places, err := poolingPlaces(s, x[2:])
			if err != nil {
				return err
			}
			dims := append([]int64{x[0], x[1]}, places...)
			s.Set("Out", s.In("X").DType, dims...)
			s.Set("Mask", tensor.Int32, dims...)
			return nil
		},
		Cost: poolingCost,
		Bind: opkit.BindFloats("X", bindPoolWithIndex[float32], bindPoolWithIndex[float64]),
	}, opkit.Gradient{
		Doc:     "dX is dOut at the places that Mask names, and 0 elsewhere.",
		Inputs:  []string{"X"},
		Outputs: []string{"Mask"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		Bind:    opkit.BindFloats("X", bindPoolWithIndexGrad[float32], bindPoolWithIndexGrad[float64]),
	})
}

func bindPoolWithIndex[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, mask := b.In("X"), b.Out("Out"), b.Out("Mask")
	made := to
	if made == nil {
		made = mask
	}
	shape, volumes := poolingShape(b, x.Dims(), made.Dims(), false)
	if to == nil {
		to = b.Scratch(x.DType(), made.Len())
	}
	if mask == nil {
		mask = b.Scratch(tensor.Int32, made.Len())
	}
	return b.Loops(ops.Loop{N: volumes, Run: func(_, from, till int) error {
		kernel.MaxPool3DPlaces(shape, till-from, opkit.Owned[T](to, from, till, volumes), opkit.Owned[int32](mask, from, till, volumes),
			opkit.Owned[T](x, from, till, volumes))
		return nil
	}})
}

func bindPoolWithIndexGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	mask, dout, dx := b.In("Mask"), b.In("Out@GRAD"), b.Out("X@GRAD")
	shape, volumes := poolingShape(b, dx.Dims(), dout.Dims(), false)
	return b.Loops(ops.Loop{N: volumes, Reads: []string{"Mask", "Out@GRAD"}, Run: func(_, from, to int) error {
		kernel.MaxPool3DGrad(shape, to-from, opkit.Owned[T](dx, from, to, volumes), nil, opkit.Owned[int32](mask, from, to, volumes),
			opkit.Owned[T](dout, from, to, volumes))
		return nil
	}})
}

func init() {
	registerUnpool("unpool", "image", "[N, C, H, W]", 2)
	registerUnpool("unpool3d", "volume", "[N, C, D, H, W]", 3)
}

// registerUnpool adds an op that puts back what a pooling that tells places has taken.
func registerUnpool(name, image, layout string, axes int) {
	steps, none := make([]int32, axes), make([]int32, axes)
	kernel.Fill(steps, 1)
	opkit.Register(ops.Def{
		Type: name,
		Doc: fmt.Sprintf("Puts the results of max_pool%dd_with_index back (Zeiler et al. 2011): each element of X goes to the place in its channel of Out that Indices names. ", axes) +
			"Other places are 0; of several elements for one place the last stays.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float " + layout}, {Name: "Indices", Doc: "int32, of the dims of X: places in a channel of Out, counted row by row"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[N, C, (H - 1)*strides - 2*paddings + ksize, ...], or what output_size says"}},
		Attrs: []ops.Attr{
			{Name: "ksize", Doc: "extents of the windows of the pooling", Kind: []int32(nil)},
			{Name: "strides", Doc: "steps of these windows, at least 1", Default: steps},
			{Name: "paddings", Doc: "padding of the pooling", Default: none},
			{Name: "output_size", Doc: "extents of the " + image + "; none or zeros: those of the pooling", Default: []int32{}},
			{Name: "unpooling_type", Doc: "max", Kind: ""}},
		Infer: func(s *ops.Shapes) error { return inferUnpool(s, axes) },
		Bind:  opkit.BindFloats("X", bindUnpool[float32], bindUnpool[float64]),
	}, opkit.Gradient{
		Doc:    "dX is dOut at the place that Indices names.",
		Inputs: []string{"X", "Indices"},
		Wrt:    []string{"X"},
		Bind:   opkit.BindFloats("X", bindUnpoolGrad[float32], bindUnpoolGrad[float64]),
	})
}

func inferUnpool(s *ops.Shapes, axes int) error {
	if err := opkit.FloatSoFar(s, "X"); err != nil {
		return err
	}
	if err := s.Rank("X", 2+axes); err != nil {
		return err
	}
	x := s.In("X")
	indices := s.In("Indices")
	if indices.DType == tensor.Int64 {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Indices")), fault.Gotf("Indices %v", indices), fault.Want("int32: add a cast"))
	}
	if err := opkit.CheckType(s, "Indices", indices.DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	if !ops.Compatible(indices.Dims, x.Dims) {
		return s.Errorf("Indices", "the dims of X %v", x.Dims)
	}
	if s.Str("unpooling_type") != "max" {
		return opkit.BadAttr(s, "unpooling_type", "max")
	}
	size, err := someInts(s, "ksize", axes, 1)
	if err != nil {
		return err
	}
	steps, err := someInts(s, "strides", axes, 1)
	if err != nil {
		return err
	}
	padding, err := someInts(s, "paddings", axes, 0)
	if err != nil {
		return err
	}
	given := s.Ints("output_size")
	if slices.Max(append(slices.Clone(given), 0)) == 0 {
		given = nil
	} else if given, err = someInts(s, "output_size", axes, 1); err != nil {
		return err
	}
	dims := append([]int64{x.Dims[0], x.Dims[1]}, slices.Repeat([]int64{program.Unknown}, axes)...)
	for i, extent := range x.Dims[2:] {
		switch {
		case given != nil:
			dims[2+i] = given[i]
			continue
		case extent < 0:
			continue
		}
		if span := times(max(extent, 1)-1, steps[i]); span >= 0 {
			dims[2+i] = span + size[i] - 2*padding[i]
		}
		if dims[2+i] < 1 {
			return opkit.BadAttr(s, "paddings", "padding that leaves an image")
		}
	}
	s.Set("Out", x.DType, dims...)
	return nil
}

// checkPlaces reports the first of the indices from place first on that lies outside of a channel.
func checkPlaces(b *ops.Binding, indices []int32, first, size int) error {
	for i, place := range indices {
		if place < 0 || int(place) >= size {
			return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Indices")), fault.Gotf("index %d at place %d", place, first+i),
				fault.Wantf("0 to %d, the places of a channel of Out", size-1))
		}
	}
	return nil
}

func bindUnpool[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return unpooling(b, b.Out("Out"), func(x, image []T, indices []int32) {
		clear(image)
		for i, place := range indices {
			image[place] = x[i]
		}
	}, b.In("X"), []string{"X", "Indices"})
}

func bindUnpoolGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return unpooling(b, b.In("Out@GRAD"), func(dx, dout []T, indices []int32) {
		for i, place := range indices {
			dx[i] = dout[place]
		}
	}, b.Out("X@GRAD"), []string{"Indices", "Out@GRAD"})
}

// unpooling runs a function for each channel of small images, and of the large ones that they become.
func unpooling[T tensor.Float](b *ops.Binding, large *tensor.Tensor, run func(small, large []T, indices []int32), small *tensor.Tensor, reads []string) (ops.Kernel, error) {
	indices, dims := b.In("Indices"), large.Dims()
	channels, places, size := opkit.Count(dims[:2]), opkit.Count(small.Dims()[2:]), opkit.Count(dims[2:])
	return b.Loops(ops.Loop{N: channels, Reads: reads, Run: func(_, from, to int) error {
		for c := from; c < to; c++ {
			at := indices.Int32s()[c*places:][:places]
			if err := checkPlaces(b, at, c*places, size); err != nil {
				return err
			}
			run(tensor.Data[T](small)[c*places:][:places], tensor.Data[T](large)[c*size:][:size], at)
		}
		return nil
	}})
}
