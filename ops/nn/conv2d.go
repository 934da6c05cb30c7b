package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
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
			{Name: "strides", Doc: "steps of the filter down and to the right, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "zeros above and below, and left and right", Default: []int32{0, 0}},
			{Name: "dilations", Doc: "distances between the elements of the filter, at least 1", Default: []int32{1, 1}},
			{Name: "groups", Doc: "groups of channels; divides C and the number of filters", Default: int32(1)},
			paddingAlgorithmAttr, dataFormatAttr("data_format")},
		Infer: inferConv2D,
		Cost:  convolutionCost(2),
		Bind:  opkit.BindFloats("Input", bindConv2D[float32], bindConv2D[float64]),
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
		// By channels, of each of which only one range gathers patches; by filters when there are too few of them.
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

// convolutionShape collects what the kernels want to know. Without output elements there are no images to go through.
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
