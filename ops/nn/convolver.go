package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A convolver computes a convolution of images or of volumes, and its gradients. The methods are those of package kernel: n counts images, and each call
// has workspace elements of memory of its own. A transposed convolution uses one the other way round: its result is what inputGrad makes.
type convolver[T tensor.Float] interface {
	workspace() int
	forward(n int, out, x, filter, bias []T, activation func(out, x []T), workspace []T)
	inputGrad(n int, dx, filter, dout, workspace []T)
	// filterGrad computes the input channels or the filters [from, to) of each group. Calls that run at the same time have different parts.
	filterGrad(part int, byChannel bool, from, to, n int, dfilter, x, dout, workspace []T)
}

// A convolution is a convolver with the sizes that loops need.
type convolution[T tensor.Float] struct {
	convolver[T]
	batch                  int // images
	groups                 int
	channels, filters      int // of a group
	outChannels, outPlaces int // of an output image
	volumes                bool
}

// newConvolution prepares the convolution from x to out, both [N, C, ...]; parts calls may run at a time. If out has no elements, there
// are no images.
func newConvolution[T tensor.Float](w windows, x, filter, out []int64, groups, parts int) *convolution[T] {
	c := &convolution[T]{
		batch: int(out[0]), groups: groups, channels: int(x[1]) / groups, filters: int(filter[0]) / groups,
		outChannels: int(filter[0]), outPlaces: opkit.Count(out[2:]), volumes: len(x) == 5,
	}
	if opkit.Count(out) == 0 {
		c.batch = 0
	}
	if c.volumes {
		c.convolver = &volumes[T]{conv3DShape(w, x, filter, out, groups)}
	} else {
		c.convolver = &images[T]{conv2DShape(w, x, filter, out, groups), make([]kernel.Conv2DBlock, parts)}
	}
	return c
}

// filterGradLoop makes the loop that computes Filter@GRAD from x and dout, which the slots hold.
func (c *convolution[T]) filterGradLoop(b *ops.Binding, x, dout *tensor.Tensor, xSlot, doutSlot string, memory *tensor.Tensor) ops.Loop {
	dfilter, each := b.Out("Filter@GRAD"), c.workspace()
	// A range is some channels, so that only one range gathers the patches of a channel. If there are too few channels, a range is some filters.
	n, byChannel := c.channels, true
	if !c.volumes && c.channels < 4*b.Parts() {
		n, byChannel = c.filters, false
	}
	reads := []string{xSlot, doutSlot}
	return ops.Loop{N: n, Apart: true, Reads: reads, Whole: reads, Writes: []string{"Filter@GRAD"}, Run: func(part, from, to int) error {
		c.filterGrad(part, byChannel, from, to, c.batch, tensor.Data[T](dfilter), tensor.Data[T](x), tensor.Data[T](dout),
			ops.Part(tensor.Data[T](memory), part, each))
		return nil
	}}
}

// channelSums makes the loop that computes Bias@GRAD: the sums of dout, [batch, channels, places], over all but the channels.
func channelSums[T tensor.Float](dbias, dout *tensor.Tensor, batch, channels, places int) ops.Loop {
	return ops.Loop{N: channels, Apart: true, Reads: []string{"Output@GRAD"}, Whole: []string{"Output@GRAD"}, Writes: []string{"Bias@GRAD"},
		Run: func(_, from, to int) error {
			kernel.AddGradChannels(tensor.Data[T](dbias), tensor.Data[T](dout), batch, channels, places, from, to)
			return nil
		}}
}

// zeros makes the loop that clears an output.
func zeros[T tensor.Float](t *tensor.Tensor, slot string) ops.Loop {
	return ops.Loop{N: 1, Reads: []string{}, Writes: []string{slot}, Run: func(_, _, _ int) error {
		clear(tensor.Data[T](t))
		return nil
	}}
}

type images[T tensor.Float] struct {
	shape  kernel.Conv2DShape
	blocks []kernel.Conv2DBlock // by part
}

func (c *images[T]) workspace() int { return kernel.Conv2DWorkspace(&c.shape) }

func (c *images[T]) forward(n int, out, x, filter, bias []T, activation func(out, x []T), workspace []T) {
	kernel.Conv2D(&c.shape, n, out, x, filter, bias, activation, workspace)
}

func (c *images[T]) inputGrad(n int, dx, filter, dout, workspace []T) {
	kernel.Conv2DInputGrad(&c.shape, n, dx, filter, dout, workspace)
}

func (c *images[T]) filterGrad(part int, byChannel bool, from, to, n int, dfilter, x, dout, workspace []T) {
	block := &c.blocks[part]
	block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = 0, c.shape.InChannels/c.shape.Groups, from, to
	if byChannel {
		block.FirstChannel, block.LastChannel, block.FirstFilter, block.LastFilter = from, to, 0, c.shape.OutChannels/c.shape.Groups
	}
	kernel.Conv2DFilterGrad(&c.shape, block, n, dfilter, x, dout, workspace)
}

type volumes[T tensor.Float] struct{ shape kernel.Conv3DShape }

func (c *volumes[T]) workspace() int { return kernel.Conv3DWorkspace(&c.shape) }

func (c *volumes[T]) forward(n int, out, x, filter, bias []T, activation func(out, x []T), workspace []T) {
	kernel.Conv3D(&c.shape, n, out, x, filter, bias, activation, workspace)
}

func (c *volumes[T]) inputGrad(n int, dx, filter, dout, workspace []T) {
	kernel.Conv3DInputGrad(&c.shape, n, dx, filter, dout, workspace)
}

func (c *volumes[T]) filterGrad(_ int, _ bool, from, to, n int, dfilter, x, dout, workspace []T) {
	kernel.Conv3DFilterGrad(&c.shape, from, to, n, dfilter, x, dout, workspace)
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

// conv3DShape is the shape of a convolution from x to out, both [N, C, D, H, W].
func conv3DShape(w windows, x, filter, out []int64, groups int) kernel.Conv3DShape {
	s := kernel.Conv3DShape{InChannels: int(x[1]), OutChannels: int(filter[0]), Groups: groups}
	for i := range s.In {
		s.In[i], s.Out[i], s.Kernel[i] = int(x[2+i]), int(out[2+i]), int(filter[2+i])
		s.Stride[i], s.Dilation[i], s.Before[i], s.After[i] = int(w.stride[i]), int(w.dilation[i]), int(w.before[i]), int(w.after[i])
	}
	return s
}
