package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerConvolution("conv2d", 2, "The convolution of images with filters, without turning the filter around: Output[n,o,y,x] = "+
		"sum over i, u, v of Filter[o,i,u,v] * Input[n, i, y*stride + u*dilation - padding, x*stride + v*dilation - padding], "+
		"plus Bias[o]; with data_format NHWC the channels of images come last. Channels are split into groups that do not see each other.")
	registerConvolution("depthwise_conv2d", 2, "conv2d with as many groups as input channels: each channel has filters of its own.")
	registerConvolution("conv3d", 3, "The convolution of volumes with filters: conv2d with a depth in front of height and width.")
}

func registerConvolution(name string, axes int, doc string) {
	d := imageDocs[axes]
	opkit.Register(ops.Def{
		Type: name,
		Doc:  doc,
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float " + d.first + ", or " + d.last},
			{Name: "Filter", Doc: "float [filters, C/groups, " + d.window + "]"},
			{Name: "Bias", Doc: "float [filters]", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "N images of (extent + paddings - (dilation*(window-1) + 1))/stride + 1 places along each axis, laid out as Input"}},
		Attrs:   convolutionAttrs(axes),
		Infer:   inferConvolution(axes),
		Cost:    convolutionCost(2),
		Bind:    opkit.BindFloats("Input", bindConvolution[float32], bindConvolution[float64]),

		MixesRows: opkit.RowsOnlyIn("Input"),
	}, opkit.Gradient{
		Doc: "each product gives dOutput*Filter to dInput and dOutput*Input to dFilter; dBias is dOutput summed over all but " +
			"the channels.",
		Inputs: []string{"Input", "Filter", "Bias"},
		Wrt:    []string{"Input", "Filter", "Bias"},
		Cost:   convolutionGradCost,
		Bind:   opkit.BindFloats("Input", bindConvolutionGrad[float32], bindConvolutionGrad[float64]),
	})
}

// imageDocs says by spatial axes how documentation describes images.
var imageDocs = map[int]struct{ first, last, window string }{
	2: {"[N, C, H, W]", "[N, H, W, C]", "height, width"},
	3: {"[N, C, D, H, W]", "[N, D, H, W, C]", "depth, height, width"},
}

func convolutionAttrs(axes int) []ops.Attr {
	one, none := make([]int32, axes), make([]int32, axes)
	for i := range one {
		one[i] = 1
	}
	return []ops.Attr{
		{Name: "strides", Doc: "steps of the filter along each axis, at least 1", Default: one},
		{Name: "paddings", Doc: "zeros: " + paddingsDoc, Default: none},
		{Name: "dilations", Doc: "distances between the elements of the filter, at least 1", Default: one},
		{Name: "groups", Doc: "groups of channels; divides C and the number of filters", Default: int32(1)},
		paddingAlgorithmAttr, dataFormatAttr("data_format")}
}

func bindConvolution[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter := b.In("Filter")
	c := convolutionOf[T](b, b.In("Input").Dims(), filter.Dims(), b.Out("Output").Dims())
	x, f := a.in("Input"), &ops.Finishing[T]{Out: a.out("Output"), Bias: b.In("Bias")}
	take := f.TakeOver(c.batch, c.outChannels, c.outPlaces)
	if w := c.fast(b); w != nil {
		return a.loops(w.convolution(x, any(f).(*ops.Finishing[float32]), take)...)
	}
	each := c.workspace()
	memory := b.Scratch(x.DType(), b.Parts()*each)
	return a.loops(ops.Loop{N: c.batch, Whole: []string{"Filter", "Bias"}, TakeOver: take, Run: func(part, from, till int) error {
		c.forward(till-from, opkit.Owned[T](f.Out, from, till, c.batch), opkit.Owned[T](x, from, till, c.batch), tensor.Data[T](filter),
			opkit.Data[T](f.Bias), f.Function, ops.Part(tensor.Data[T](memory), part, each))
		return nil
	}})
}

func bindConvolutionGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter := b.In("Filter")
	c := convolutionOf[T](b, b.In("Input").Dims(), filter.Dims(), b.In("Output@GRAD").Dims())
	dout, dx := a.in("Output@GRAD"), a.out("Input@GRAD")
	var loops []ops.Loop
	w := c.fast(b)
	each := c.workspace()
	var memory *tensor.Tensor // of the direct way
	if w == nil {
		memory = b.Scratch(filter.DType(), b.Parts()*each)
	}
	switch {
	case b.Out("Filter@GRAD") == nil:
	case w != nil:
		loops = append(loops, w.filterGrad(a.in("Input"), dout))
	default:
		loops = append(loops, c.filterGradLoop(b, a.in("Input"), dout, "Input", "Output@GRAD", memory))
	}
	if dbias := b.Out("Bias@GRAD"); dbias != nil {
		loops = append(loops, channelSums[T](dbias, dout, c.batch, c.outChannels, c.outPlaces))
	}
	switch {
	case dx != nil && dout.Len() == 0:
		loops = append(loops, zeros[T](dx, "Input@GRAD"))
	case dx != nil && w != nil:
		loops = append(loops, w.inputGrad(dx, dout)...)
	case dx != nil:
		loops = append(loops, ops.Loop{N: c.batch, Reads: []string{"Filter", "Output@GRAD"}, Whole: []string{"Filter"}, Writes: []string{"Input@GRAD"},
			Run: func(part, from, to int) error {
				c.inputGrad(to-from, opkit.Owned[T](dx, from, to, c.batch), tensor.Data[T](filter), opkit.Owned[T](dout, from, to, c.batch),
					ops.Part(tensor.Data[T](memory), part, each))
				return nil
			}})
	}
	return a.loops(loops...)
}

// convolutionOf prepares the convolution of an op from Input to Output, in whatever layout they are.
func convolutionOf[T tensor.Float](b *ops.Binding, x, filter, out []int64) *convolution[T] {
	last := channelsLast(b, "data_format")
	x, out = firstly(x, last), firstly(out, last)
	return newConvolution[T](windowsOf(b, filter[2:], x[2:]), x, filter, out, int(b.Int("groups")), b.Parts())
}

// inferConvolution makes the Infer of a convolution over some axes.
func inferConvolution(axes int) func(*ops.Shapes) error {
	return func(s *ops.Shapes) error {
		if err := checkConvolution(s, axes); err != nil {
			return err
		}
		return inferPlaces(s)
	}
}

func inferPlaces(s *ops.Shapes) error {
	last := channelsLast(s, "data_format")
	x, filter := firstly(s.In("Input").Dims, last), s.In("Filter").Dims
	if err := convolutionChannels(s, x[1]); err != nil {
		return err
	}
	w := windowsOf(s, filter[2:], x[2:])
	places, bad := w.places(x[2:], false)
	if bad >= 0 {
		return s.Errorf("Filter", "no larger than the padded Input %v", s.In("Input").Dims)
	}
	s.Set("Output", s.In("Input").DType, lastly(append([]int64{x[0], filter[0]}, places...), last)...)
	return nil
}

// checkConvolution checks types, ranks, extents and windows of an op that convolves over some axes.
func checkConvolution(s *ops.Shapes, axes int) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "Filter", "Bias"); err != nil {
		return err
	}
	if err := checkLayout(s, "data_format"); err != nil {
		return err
	}
	if err := s.Rank("Input", 2+axes); err != nil {
		return err
	}
	if err := s.Rank("Filter", 2+axes); err != nil {
		return err
	}
	if err := checkWindows(s, axes); err != nil {
		return err
	}
	x := firstly(s.In("Input").Dims, channelsLast(s, "data_format"))
	for i, size := range s.In("Filter").Dims[2:] {
		if size == 0 || size > mostWindow {
			return s.Errorf("Filter", "window extents in [1, %d]", mostWindow)
		}
		if x[2+i] > math.MaxInt32 {
			return s.Errorf("Input", "extents of images of at most %d", math.MaxInt32)
		}
	}
	return nil
}

// convolutionChannels checks the channels of the input, of the filter and of the bias against the groups.
func convolutionChannels(s *ops.Shapes, channels int64) error {
	filter, groups := s.In("Filter").Dims, s.Int("groups")
	perGroup, filters := filter[1], filter[0]
	if groups < 1 || channels >= 0 && channels%groups != 0 || filters >= 0 && filters%groups != 0 {
		return opkit.BadAttr(s, "groups", "at least 1, dividing the %d channels of Input and the filters of Filter %v", channels, filter)
	}
	if channels >= 0 && !opkit.Agree(perGroup, channels/groups) {
		return s.Errorf("Filter", "extent 1 to be the %d channels of Input over %d groups", channels, groups)
	}
	if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{filters}) {
		return s.Errorf("Bias", "dims [%d], one number for each filter", filters)
	}
	return nil
}

// convolutionGradCost counts each product once for each wanted gradient: of the input and of the filter.
func convolutionGradCost(s *ops.Shapes) ops.Cost {
	wanted := int64(0)
	for _, slot := range []string{"Input@GRAD", "Filter@GRAD"} {
		if s.Op().Out(slot) != "" && s.Op().Out(slot) != program.Empty {
			wanted++
		}
	}
	return convolutionCost(2 * wanted)(s)
}

// convolutionCost estimates flops operations for each product of an output element.
func convolutionCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		out := append(s.Outs("Output"), s.Ins("Output@GRAD")...)[0].Dims
		patch := opkit.Size(s.In("Filter").Dims[1:])
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(out), patch}), Bytes: opkit.Bytes(s)}
	}
}
