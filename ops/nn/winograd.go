package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A fast computes the convolution of an op, or its gradients, with fewer products (kernel.Winograd).
type fast struct {
	*kernel.Winograd
	b     *ops.Binding
	batch int
}

// fast returns the way with fewer products, nil if there is none for this type and shape, or if it would not pay.
func (c *convolution[T]) fast(b *ops.Binding) *fast {
	i, ok := any(c.convolver).(*images[float32])
	if !ok {
		return nil
	}
	w := kernel.NewWinograd(&i.shape)
	if w == nil {
		return nil
	}
	return &fast{w, b, c.batch}
}

// convolution makes the loops of the op itself. An epilogue may be taken over by f through take.
func (w *fast) convolution(x *tensor.Tensor, f *ops.Finishing[float32], take func(ops.Epilogue) bool) []ops.Loop {
	prepare, transformed := w.filterLoop(w.Winograd)
	each := w.ConvolveWorkspace()
	memory := w.b.Scratch(tensor.Float32, w.b.Parts()*each)
	return []ops.Loop{prepare, {N: w.batch, Reads: []string{"Input", "Bias"}, Whole: []string{"Bias"}, TakeOver: take, Run: func(part, from, to int) error {
		w.Convolve(to-from, opkit.Owned[float32](f.Out, from, to, w.batch), opkit.Owned[float32](x, from, to, w.batch), tensor.Data[float32](transformed),
			opkit.Data[float32](f.Bias), f.Function, ops.Part(tensor.Data[float32](memory), part, each))
		return nil
	}}}
}

// inputGrad makes the loops that compute Input@GRAD.
func (w *fast) inputGrad(dx, dout *tensor.Tensor) []ops.Loop {
	g := w.InputGrad()
	prepare, transformed := w.filterLoop(g)
	each := g.ConvolveWorkspace()
	memory := w.b.Scratch(tensor.Float32, w.b.Parts()*each)
	return []ops.Loop{prepare, {N: w.batch, Reads: []string{"Output@GRAD"}, Writes: []string{"Input@GRAD"}, Run: func(part, from, to int) error {
		g.Convolve(to-from, opkit.Owned[float32](dx, from, to, w.batch), opkit.Owned[float32](dout, from, to, w.batch), tensor.Data[float32](transformed),
			nil, nil, ops.Part(tensor.Data[float32](memory), part, each))
		return nil
	}}}
}

// leastChannels is how many channels a range takes at least: those of a vector. Each range transforms all of Output@GRAD.
const leastChannels = 8

// filterGrad makes the loop that computes Filter@GRAD.
func (w *fast) filterGrad(x, dout *tensor.Tensor) ops.Loop {
	dfilter, each := w.b.Out("Filter@GRAD"), w.SumWorkspace()
	memory := w.b.Scratch(tensor.Float32, w.b.Parts()*each)
	reads := []string{"Input", "Output@GRAD"}
	return ops.Loop{N: w.Channels(), Least: leastChannels, Apart: true, Reads: reads, Whole: reads, Writes: []string{"Filter@GRAD"},
		Run: func(part, from, to int) error {
			w.FilterGrad(from, to, w.batch, tensor.Data[float32](dfilter), tensor.Data[float32](x), tensor.Data[float32](dout),
				ops.Part(tensor.Data[float32](memory), part, each))
			return nil
		}}
}

// filterLoop makes the loop that transforms Filter once for all images.
func (w *fast) filterLoop(c *kernel.Winograd) (loop ops.Loop, transformed *tensor.Tensor) {
	filter, each := w.b.In("Filter"), c.FilterWorkspace()
	transformed = w.b.Scratch(tensor.Float32, c.FilterLength())
	memory := w.b.Scratch(tensor.Float32, w.b.Parts()*each)
	return ops.Loop{N: c.Channels(), Least: leastChannels, Apart: true, Reads: []string{"Filter"}, Whole: []string{"Filter"}, Writes: []string{},
		Run: func(part, from, to int) error {
			c.TransformFilter(tensor.Data[float32](transformed), tensor.Data[float32](filter), from, to, ops.Part(tensor.Data[float32](memory), part, each))
			return nil
		}}, transformed
}
