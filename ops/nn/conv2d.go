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
		"plus Bias[o]. Channels are split into groups that do not see each other.")
	registerConvolution("depthwise_conv2d", "conv2d with as many groups as input channels: each channel has filters of its own.")
}

func registerConvolution(name, doc string) {
	opkit.Register(ops.Def{
		Type: name,
		Doc:  doc,
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [N, C, H, W]"},
			{Name: "Filter", Doc: "float [filters, C/groups, height, width]"},
			{Name: "Bias", Doc: "float [filters]", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, filters, (H + 2*padding - (dilation*(height-1) + 1))/stride + 1, ...]"}},
		Attrs: []ops.Attr{
			{Name: "strides", Doc: "steps of the filter, down and to the right, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "zeros above and below, and left and right", Default: []int32{0, 0}},
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
	x, filter := b.In("Input"), b.In("Filter")
	f := &ops.Finishing[T]{Out: b.Out("Output"), Bias: b.In("Bias")}
	shape, images := convolutionShape(b, x.Dims(), filter.Dims(), f.Out.Dims())
	each := kernel.Conv2DWorkspace(&shape)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	take := f.TakeOver(images, shape.OutChannels, shape.OutHeight*shape.OutWidth)
	return b.Loops(ops.Loop{N: images, Whole: []string{"Filter", "Bias"}, TakeOver: take, Run: func(part, from, till int) error {
		kernel.Conv2D(&shape, till-from, opkit.Owned[T](f.Out, from, till, images), opkit.Owned[T](x, from, till, images), tensor.Data[T](filter),
			opkit.Data[T](f.Bias), f.Function, ops.Part(tensor.Data[T](workspace), part, each))
		return nil
	}})
}

func bindConv2DGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, filter, dout := b.In("Input"), b.In("Filter"), b.In("Output@GRAD")
	dx, dfilter, dbias := b.Out("Input@GRAD"), b.Out("Filter@GRAD"), b.Out("Bias@GRAD")
	shape, images := convolutionShape(b, x.Dims(), filter.Dims(), dout.Dims())
	each := kernel.Conv2DWorkspace(&shape)
	workspace := b.Scratch(x.DType(), b.Parts()*each)
	var loops []ops.Loop
	once := func(reads []string, writes string, run func(workspace []T)) {
		loops = append(loops, ops.Loop{N: 1, Reads: reads, Writes: []string{writes}, Run: func(part, _, _ int) error {
			run(ops.Part(tensor.Data[T](workspace), part, each))
			return nil
		}})
	}
	if dfilter != nil {
		// A range is some channels, so that only one range gathers the patches of a channel. If there are too few channels, a range is some filters.
		channels, filters := shape.InChannels/shape.Groups, shape.OutChannels/shape.Groups
		byChannel := channels >= 4*b.Parts()
		n, blocks := filters, make([]kernel.Conv2DBlock, b.Parts())
		if byChannel {
			n = channels
		}
		loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"Input", "Output@GRAD"}, Whole: []string{"Input", "Output@GRAD"},
			Writes: []string{"Filter@GRAD"},
			Run: func(part, from, to int) error {
				block := &blocks[part]
				block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = 0, channels, from, to
				if byChannel {
					block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = from, to, 0, filters
				}
				kernel.Conv2DFilterGrad(&shape, block, images, tensor.Data[T](dfilter), tensor.Data[T](x), tensor.Data[T](dout),
					ops.Part(tensor.Data[T](workspace), part, each))
				return nil
			}})
	}
	if dbias != nil {
		loops = append(loops, ops.Loop{N: shape.OutChannels, Apart: true, Reads: []string{"Output@GRAD"}, Whole: []string{"Output@GRAD"},
			Writes: []string{"Bias@GRAD"},
			Run: func(_, from, to int) error {
				kernel.AddGradChannels(tensor.Data[T](dbias), tensor.Data[T](dout), images, shape.OutChannels, shape.OutHeight*shape.OutWidth, from, to)
				return nil
			}})
	}
	switch {
	case dx != nil && dout.Len() == 0:
		once(nil, "Input@GRAD", func([]T) { clear(tensor.Data[T](dx)) })
	case dx != nil:
		loops = append(loops, ops.Loop{N: images, Reads: []string{"Filter", "Output@GRAD"}, Whole: []string{"Filter"}, Writes: []string{"Input@GRAD"},
			Run: func(part, from, to int) error {
				kernel.Conv2DInputGrad(&shape, to-from, opkit.Owned[T](dx, from, to, images), tensor.Data[T](filter), opkit.Owned[T](dout, from, to, images),
					ops.Part(tensor.Data[T](workspace), part, each))
				return nil
			}})
	}
	return b.Loops(loops...)
}

// convolutionShape collects what the kernels need to know. If the output has no elements, there are no images.
func convolutionShape(b *ops.Binding, x, filter, out []int64) (shape kernel.Conv2DShape, images int) {
	stride, padding, dilation := b.Ints("strides"), b.Ints("paddings"), b.Ints("dilations")
	images = int(out[0])
	if opkit.Count(out) == 0 {
		images = 0
	}
	return kernel.Conv2DShape{
		InChannels: int(x[1]), InHeight: int(x[2]), InWidth: int(x[3]),
		OutChannels: int(filter[0]), OutHeight: int(out[2]), OutWidth: int(out[3]),
		KernelHeight: int(filter[2]), KernelWidth: int(filter[3]),
		StrideHeight: int(stride[0]), StrideWidth: int(stride[1]),
		PaddingHeight: int(padding[0]), PaddingWidth: int(padding[1]),
		DilationHeight: int(dilation[0]), DilationWidth: int(dilation[1]),
		Groups: int(b.Int("groups")),
	}, images
}

// mostWindow bounds strides, paddings, dilations and window extents. It is far above real values, and small enough that sums of their products do
// not overflow.
const mostWindow = math.MaxInt16

// dataFormatAttr is the layout of images; the name of the attribute differs between ops.
func dataFormatAttr(name string) ops.Attr {
	return ops.Attr{Name: name, Doc: "layout of images; only NCHW, also called AnyLayout", Default: "NCHW"}
}

// paddingAlgorithmAttr comes from Fluid 1.6, where it can make the op compute the paddings.
var paddingAlgorithmAttr = ops.Attr{Name: "padding_algorithm", Doc: "only EXPLICIT: paddings has the numbers", Default: "EXPLICIT"}

// checkImages checks the attributes that say where windows lie in images.
func checkImages(s *ops.Shapes) error {
	if s.Str("padding_algorithm") != "EXPLICIT" {
		return opkit.UnsupportedAttr(s, "padding_algorithm", "EXPLICIT")
	}
	return checkLayout(s, "data_format")
}

func checkLayout(s *ops.Shapes, name string) error {
	if layout := s.Str(name); layout != "NCHW" && layout != "AnyLayout" {
		return opkit.UnsupportedAttr(s, name, "NCHW")
	}
	return nil
}

// twoInts reads an attribute of two numbers, for height and width, in [least, mostWindow].
func twoInts(s *ops.Shapes, name string, least int64) ([]int64, error) {
	v := s.Ints(name)
	if len(v) != 2 || min(v[0], v[1]) < least || max(v[0], v[1]) > mostWindow {
		return nil, opkit.BadAttr(s, name, "two numbers in [%d, %d]", least, mostWindow)
	}
	return v, nil
}

func inferConv2D(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "Filter", "Bias"); err != nil {
		return err
	}
	if err := checkImages(s); err != nil {
		return err
	}
	if err := s.Rank("Input", 4); err != nil {
		return err
	}
	if err := s.Rank("Filter", 4); err != nil {
		return err
	}
	if err := convolutionChannels(s); err != nil {
		return err
	}
	places, err := convolutionPlaces(s)
	if err != nil {
		return err
	}
	x, filter := s.In("Input").Dims, s.In("Filter").Dims
	s.Set("Output", s.In("Input").DType, x[0], filter[0], places[0], places[1])
	return nil
}

// convolutionChannels checks channels of the input, of the filter and of the bias against the groups.
func convolutionChannels(s *ops.Shapes) error {
	x, filter, groups := s.In("Input").Dims, s.In("Filter").Dims, s.Int("groups")
	channels, perGroup, filters := x[1], filter[1], filter[0]
	if groups < 1 || channels >= 0 && channels%groups != 0 || filters >= 0 && filters%groups != 0 {
		return opkit.BadAttr(s, "groups", "at least 1, dividing the channels of Input %v and the filters of Filter %v", x, filter)
	}
	if channels >= 0 && !opkit.Agree(perGroup, channels/groups) {
		return s.Errorf("Filter", "extent 1 to be the channels of Input %v over %d groups", x, groups)
	}
	if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{filters}) {
		return s.Errorf("Bias", "dims [%d], one number for each filter", filters)
	}
	return nil
}

// convolutionPlaces returns the extents of the output's height and width.
func convolutionPlaces(s *ops.Shapes) (places [2]int64, err error) {
	stride, err := twoInts(s, "strides", 1)
	if err != nil {
		return places, err
	}
	padding, err := twoInts(s, "paddings", 0)
	if err != nil {
		return places, err
	}
	dilation, err := twoInts(s, "dilations", 1)
	if err != nil {
		return places, err
	}
	x, filter := s.In("Input").Dims[2:], s.In("Filter").Dims[2:]
	for i := range places {
		places[i] = program.Unknown
		if filter[i] == 0 || filter[i] > mostWindow {
			return places, s.Errorf("Filter", "height and width in [1, %d]", mostWindow)
		}
		if x[i] > math.MaxInt32 {
			return places, s.Errorf("Input", "height and width of at most %d", math.MaxInt32)
		}
		if x[i] < 0 || filter[i] < 0 {
			continue
		}
		room := x[i] + 2*padding[i] - (dilation[i]*(filter[i]-1) + 1)
		if room < 0 {
			return places, s.Errorf("Filter", "no larger than the padded Input %v", s.In("Input").Dims)
		}
		places[i] = room/stride[i] + 1
	}
	return places, nil
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
