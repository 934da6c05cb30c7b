package nn

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerTransposed("conv2d_transpose", 2, "The transpose of the convolution of images, also called deconvolution: each element of Input adds "+
		"itself times the filter of its channel to a window of Output, as the gradient of conv2d does. Along an axis, Output has "+
		"(extent-1)*stride - paddings + dilation*(window-1) + 1 places, plus output_padding.")
	registerTransposed("depthwise_conv2d_transpose", 2, "conv2d_transpose with as many groups as input channels.")
	registerTransposed("conv3d_transpose", 3, "The transpose of the convolution of volumes: conv2d_transpose with a depth in front of height and width.")
}

func registerTransposed(name string, axes int, doc string) {
	d := imageDocs[axes]
	opkit.Register(opkit.Open(opkit.ByVariables(ops.Def{
		Type: name,
		Doc:  doc,
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float " + d.first + ", or " + d.last},
			{Name: "Filter", Doc: "float [C, filters/groups, " + d.window + "]"},
			{Name: "Bias", Doc: "float [filters]", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "N images of filters channels, laid out as Input"}},
		Attrs: append(convolutionAttrs(axes),
			ops.Attr{Name: "output_size", Doc: "extents of Output: at least those of the formula, and less than a stride more; none: those of the formula", Default: []int32{}},
			ops.Attr{Name: "output_padding", Doc: "what to add to the extents of the formula, less than a stride or a dilation; ignored with output_size", Default: []int32{}}),
		Infer: inferTransposed(axes),
		Cost:  transposedCost(2),
		Bind:  opkit.BindFloats("Input", bindTransposed[float32], bindTransposed[float64]),

		MixesRows: opkit.RowsOnlyIn("Input"),
	}, "output_size")), opkit.Gradient{
		Doc: "dInput is the convolution of dOutput with Filter; each product gives Input*dOutput to dFilter; dBias is dOutput summed over all but " +
			"the channels.",
		Inputs: []string{"Input", "Filter", "Bias"},
		Wrt:    []string{"Input", "Filter", "Bias"},
		Cost:   transposedCost(4),
		Bind:   opkit.BindFloats("Input", bindTransposedGrad[float32], bindTransposedGrad[float64]),
	})
}

func inferTransposed(axes int) func(*ops.Shapes) error {
	return func(s *ops.Shapes) error {
		if err := checkConvolution(s, axes); err != nil {
			return err
		}
		last := channelsLast(s, "data_format")
		x, filter, groups := firstly(s.In("Input").Dims, last), s.In("Filter").Dims, s.Int("groups")
		if groups < 1 || groups > mostWindow || x[1] >= 0 && x[1]%groups != 0 {
			return opkit.BadAttr(s, "groups", "a number in [1, %d] that divides the %d channels of Input", mostWindow, x[1])
		}
		if !opkit.Agree(x[1], filter[0]) {
			return s.Errorf("Filter", "extent 0 to be the %d channels of Input", x[1])
		}
		filters := int64(program.Unknown)
		if filter[1] >= 0 {
			if filters = ops.Product([]int64{filter[1], groups}); filters < 0 {
				return s.Errorf("Filter", "fewer filters")
			}
		}
		if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{filters}) {
			return s.Errorf("Bias", "dims [%d], one number for each filter", filters)
		}
		places, err := transposedPlaces(s, windowsOf(s, filter[2:], x[2:]), x[2:])
		if err != nil {
			return err
		}
		s.Set("Output", s.In("Input").DType, lastly(append([]int64{x[0], filters}, places...), last)...)
		return nil
	}
}

// transposedPlaces returns the extents of the output of a transposed convolution of images of these extents.
func transposedPlaces(s *ops.Shapes, w windows, image []int64) ([]int64, error) {
	size, extra := s.Ints("output_size"), s.Ints("output_padding")
	if len(size) != 0 && len(size) != len(image) {
		return nil, opkit.BadAttr(s, "output_size", "%d numbers, or none", len(image))
	}
	if len(extra) != 0 && len(extra) != len(image) {
		return nil, opkit.BadAttr(s, "output_padding", "%d numbers, or none", len(image))
	}
	places := make([]int64, len(image))
	if opensPlaces(s, "output_size", len(image)) {
		return slices.Repeat([]int64{program.Unknown}, len(image)), nil
	}
	for i, in := range image {
		if in < 0 || w.size[i] < 0 {
			places[i] = program.Unknown
			continue
		}
		least := (in-1)*w.stride[i] - w.before[i] - w.after[i] + w.reach(i)
		if least < 1 || in == 0 {
			return nil, s.Errorf("Input", "images so large that the output has places beside its paddings")
		}
		places[i] = least
		switch {
		case len(size) != 0:
			if size[i] < least || size[i] >= least+w.stride[i] {
				return nil, opkit.BadAttr(s, "output_size", "an extent %d in [%d, %d)", i, least, least+w.stride[i])
			}
			places[i] = size[i]
		case len(extra) != 0:
			if extra[i] < 0 || extra[i] >= max(w.stride[i], w.dilation[i]) {
				return nil, opkit.BadAttr(s, "output_padding", "at least 0, and less than the stride or the dilation")
			}
			places[i] += extra[i]
		}
	}
	return places, nil
}

// transposedCost estimates flops operations for each product of an input element.
func transposedCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		patch := opkit.Size(s.In("Filter").Dims[1:])
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(s.In("Input").Dims), patch}), Bytes: opkit.Bytes(s)}
	}
}

// transposedOf prepares the convolution whose transpose the op computes: from its Output to its Input.
func transposedOf[T tensor.Float](b *ops.Binding, x, filter, out []int64) *convolution[T] {
	last := channelsLast(b, "data_format")
	x, out = firstly(x, last), firstly(out, last)
	return newConvolution[T](windowsOf(b, filter[2:], x[2:]), out, filter, x, int(b.Int("groups")), b.Parts())
}

func bindTransposed[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter, bias := b.In("Filter"), b.In("Bias")
	dims := firstly(b.Out("Output").Dims(), a.last)
	c := transposedOf[T](b, b.In("Input").Dims(), filter.Dims(), b.Out("Output").Dims())
	x, out := a.in("Input"), a.out("Output")
	n, channels, places := int(dims[0]), int(dims[1]), opkit.Count(dims[2:])
	each := c.workspace()
	memory := b.Scratch(x.DType(), b.Parts()*each)
	return a.loops(ops.Loop{N: n, Reads: []string{"Input", "Filter", "Bias"}, Whole: []string{"Filter", "Bias"}, Run: func(part, from, till int) error {
		y := opkit.Owned[T](out, from, till, n)
		if x.Len() == 0 {
			clear(y)
		} else {
			c.inputGrad(till-from, y, tensor.Data[T](filter), opkit.Owned[T](x, from, till, n), ops.Part(tensor.Data[T](memory), part, each))
		}
		if bias != nil {
			kernel.Add(y, y, tensor.Data[T](bias), till-from, channels, places)
		}
		return nil
	}})
}

func bindTransposedGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter := b.In("Filter")
	dims := firstly(b.In("Output@GRAD").Dims(), a.last)
	c := transposedOf[T](b, b.In("Input").Dims(), filter.Dims(), b.In("Output@GRAD").Dims())
	dout, dx := a.in("Output@GRAD"), a.out("Input@GRAD")
	each := c.workspace()
	memory := b.Scratch(filter.DType(), b.Parts()*each)
	var loops []ops.Loop
	if b.Out("Filter@GRAD") != nil {
		loops = append(loops, c.filterGradLoop(b, dout, a.in("Input"), "Output@GRAD", "Input", memory))
	}
	if dbias := b.Out("Bias@GRAD"); dbias != nil {
		loops = append(loops, channelSums[T](dbias, dout, int(dims[0]), int(dims[1]), opkit.Count(dims[2:])))
	}
	if dx != nil {
		loops = append(loops, ops.Loop{N: c.batch, Reads: []string{"Filter", "Output@GRAD"}, Whole: []string{"Filter"}, Writes: []string{"Input@GRAD"},
			Run: func(part, from, to int) error {
				c.forward(to-from, opkit.Owned[T](dx, from, to, c.batch), opkit.Owned[T](dout, from, to, c.batch), tensor.Data[T](filter), nil, nil,
					ops.Part(tensor.Data[T](memory), part, each))
				return nil
			}})
	}
	return a.loops(loops...)
}
