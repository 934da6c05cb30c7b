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
	registerConvolution("conv2d", "The convolution of images with filters, without turning the filter around: Output[n,o,y,x] = "+
		"sum over i, u, v of Filter[o,i,u,v] * Input[n, i, y*stride + u*dilation - padding, x*stride + v*dilation - padding], "+
		"plus Bias[o]; with data_format NHWC the channels of images come last. Channels are split into groups that do not see each other.")
	registerConvolution("depthwise_conv2d", "conv2d with as many groups as input channels: each channel has filters of its own.")
}

func registerConvolution(name, doc string) {
	opkit.Register(ops.Def{
		Type: name,
		Doc:  doc,
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [N, C, H, W], or [N, H, W, C]"},
			{Name: "Filter", Doc: "float [filters, C/groups, height, width]"},
			{Name: "Bias", Doc: "float [filters]", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, filters, (H + paddings - (dilation*(height-1) + 1))/stride + 1, ...], laid out as Input"}},
		Attrs: []ops.Attr{
			{Name: "strides", Doc: "steps of the filter, down and to the right, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "zeros: " + paddingsDoc, Default: []int32{0, 0}},
			{Name: "dilations", Doc: "distances between the elements of the filter, at least 1", Default: []int32{1, 1}},
			{Name: "groups", Doc: "groups of channels; divides C and the number of filters", Default: int32(1)},
			paddingAlgorithmAttr, dataFormatAttr("data_format")},
		Infer: inferConv2D,
		Cost:  convolutionCost(2),
		Bind:  opkit.BindFloats("Input", bindConv2D[float32], bindConv2D[float64]),

		MixesRows: opkit.RowsOnlyIn("Input"),
	}, opkit.Gradient{
		Doc: "each product gives dOutput*Filter to dInput and dOutput*Input to dFilter; dBias is dOutput summed over all but " +
			"the channels.",
		Inputs: []string{"Input", "Filter", "Bias"},
		Wrt:    []string{"Input", "Filter", "Bias"},
		Cost:   convolutionGradCost,
		Bind:   opkit.BindFloats("Input", bindConv2DGrad[float32], bindConv2DGrad[float64]),
	})
}

func bindConv2D[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter := b.In("Filter")
	shape, images := convolutionShape(b, b.In("Input").Dims(), filter.Dims(), b.Out("Output").Dims())
	x, f := a.in("Input"), &ops.Finishing[T]{Out: a.out("Output"), Bias: b.In("Bias")}
	each := kernel.Conv2DWorkspace(&shape)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	take := f.TakeOver(images, shape.OutChannels, shape.OutHeight*shape.OutWidth)
	return a.loops(ops.Loop{N: images, Whole: []string{"Filter", "Bias"}, TakeOver: take, Run: func(part, from, till int) error {
		kernel.Conv2D(&shape, till-from, opkit.Owned[T](f.Out, from, till, images), opkit.Owned[T](x, from, till, images), tensor.Data[T](filter),
			opkit.Data[T](f.Bias), f.Function, ops.Part(tensor.Data[T](workspace), part, each))
		return nil
	}})
}

func bindConv2DGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	filter := b.In("Filter")
	shape, images := convolutionShape(b, b.In("Input").Dims(), filter.Dims(), b.In("Output@GRAD").Dims())
	dout, dx := a.in("Output@GRAD"), a.out("Input@GRAD")
	each := kernel.Conv2DWorkspace(&shape)
	workspace := b.Scratch(filter.DType(), b.Parts()*each)
	var loops []ops.Loop
	if b.Out("Filter@GRAD") != nil {
		loops = append(loops, filterGradLoop[T](b, &shape, images, a.in("Input"), dout, "Input", "Output@GRAD", workspace, each))
	}
	if dbias := b.Out("Bias@GRAD"); dbias != nil {
		loops = append(loops, channelSums[T](dbias, dout, images, shape.OutChannels, shape.OutHeight*shape.OutWidth))
	}
	switch {
	case dx != nil && dout.Len() == 0:
		loops = append(loops, ops.Loop{N: 1, Reads: []string{}, Writes: []string{"Input@GRAD"}, Run: func(_, _, _ int) error {
			clear(tensor.Data[T](dx))
			return nil
		}})
	case dx != nil:
		loops = append(loops, ops.Loop{N: images, Reads: []string{"Filter", "Output@GRAD"}, Whole: []string{"Filter"}, Writes: []string{"Input@GRAD"},
			Run: func(part, from, to int) error {
				kernel.Conv2DInputGrad(&shape, to-from, opkit.Owned[T](dx, from, to, images), tensor.Data[T](filter), opkit.Owned[T](dout, from, to, images),
					ops.Part(tensor.Data[T](workspace), part, each))
				return nil
			}})
	}
	return a.loops(loops...)
}

// filterGradLoop makes the loop that computes Filter@GRAD of a convolution of shape from the images x to the images dout, which the slots reads hold.
func filterGradLoop[T tensor.Float](b *ops.Binding, shape *kernel.Conv2DShape, images int, x, dout *tensor.Tensor, xSlot, doutSlot string,
	workspace *tensor.Tensor, each int) ops.Loop {
	dfilter := b.Out("Filter@GRAD")
	// A range is some channels, so that only one range gathers the patches of a channel. If there are too few channels, a range is some filters.
	channels, filters := shape.InChannels/shape.Groups, shape.OutChannels/shape.Groups
	byChannel := channels >= 4*b.Parts()
	n, blocks := filters, make([]kernel.Conv2DBlock, b.Parts())
	if byChannel {
		n = channels
	}
	reads := []string{xSlot, doutSlot}
	return ops.Loop{N: n, Apart: true, Reads: reads, Whole: reads, Writes: []string{"Filter@GRAD"}, Run: func(part, from, to int) error {
		block := &blocks[part]
		block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = 0, channels, from, to
		if byChannel {
			block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = from, to, 0, filters
		}
		kernel.Conv2DFilterGrad(shape, block, images, tensor.Data[T](dfilter), tensor.Data[T](x), tensor.Data[T](dout),
			ops.Part(tensor.Data[T](workspace), part, each))
		return nil
	}}
}

// channelSums makes the loop that computes Bias@GRAD: the sums of dout, [images, channels, pixels], over all but the channels.
func channelSums[T tensor.Float](dbias, dout *tensor.Tensor, images, channels, pixels int) ops.Loop {
	return ops.Loop{N: channels, Apart: true, Reads: []string{"Output@GRAD"}, Whole: []string{"Output@GRAD"}, Writes: []string{"Bias@GRAD"},
		Run: func(_, from, to int) error {
			kernel.AddGradChannels(tensor.Data[T](dbias), tensor.Data[T](dout), images, channels, pixels, from, to)
			return nil
		}}
}

// convolutionShape collects what the kernels need to know. If the output has no elements, there are no images.
func convolutionShape(b *ops.Binding, x, filter, out []int64) (shape kernel.Conv2DShape, images int) {
	last := channelsLast(b, "data_format")
	x, out = firstly(x, last), firstly(out, last)
	images = int(out[0])
	if opkit.Count(out) == 0 {
		images = 0
	}
	return conv2DShape(windowsOf(b, filter[2:], x[2:]), x, filter, out, int(b.Int("groups"))), images
}

// conv2DShape is the shape of a convolution from x to out, both [N, C, H, W].
func conv2DShape(w windows, x, filter, out []int64, groups int) kernel.Conv2DShape {
	return kernel.Conv2DShape{
		InChannels: int(x[1]), InHeight: int(x[2]), InWidth: int(x[3]),
		OutChannels: int(filter[0]), OutHeight: int(out[2]), OutWidth: int(out[3]),
		KernelHeight: int(filter[2]), KernelWidth: int(filter[3]),
		StrideHeight: int(w.stride[0]), StrideWidth: int(w.stride[1]),
		PaddingTop: int(w.before[0]), PaddingBottom: int(w.after[0]), PaddingLeft: int(w.before[1]), PaddingRight: int(w.after[1]),
		DilationHeight: int(w.dilation[0]), DilationWidth: int(w.dilation[1]),
		Groups: groups,
	}
}

func inferConv2D(s *ops.Shapes) error {
	if err := checkConvolution(s, 2); err != nil {
		return err
	}
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
