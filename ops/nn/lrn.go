package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lrn",
		Doc: "Normalises each element by those of neighbouring channels at its place (Krizhevsky et al. 2012): Out = X/MidOut**beta with " +
			"MidOut = k + alpha*(sum of X*X over the n channels around this one, as far as they exist).",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [N, C, H, W], or [N, H, W, C]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"},
			{Name: "MidOut", Doc: "of the shape and type of X", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "n", Doc: "number of channels in a sum, odd", Default: int32(5)},
			{Name: "k", Doc: "the least divisor, above 0", Default: float32(2)},
			{Name: "alpha", Doc: "weight of the sum, at least 0", Default: float32(1e-4)},
			{Name: "beta", Doc: "power of the divisor", Default: float32(0.75)},
			dataFormatAttr("data_format")},
		Infer: inferLRN,
		Cost:  opkit.PerElement(40),
		Bind:  opkit.BindFloats("X", bindLRN[float32], bindLRN[float64]),
	}, opkit.Gradient{
		Doc:     "dX = dOut/MidOut**beta - 2*alpha*beta*X*(sum of dOut*Out/MidOut over the channels around this one).",
		Inputs:  []string{"X"},
		Outputs: []string{"Out", "MidOut"},
		Wrt:     []string{"X"},
		Cost:    opkit.PerElement(60),
		Bind:    opkit.BindFloats("X", bindLRNGrad[float32], bindLRNGrad[float64]),
	})
}

func inferLRN(s *ops.Shapes) error {
	if err := checkImages(s, "data_format", 4); err != nil {
		return err
	}
	if n := s.Int("n"); n < 1 || n > mostWindow || n%2 == 0 {
		return opkit.BadAttr(s, "n", "an odd number up to %d", mostWindow)
	}
	if !(s.Float("k") > 0) {
		return opkit.UnsupportedAttr(s, "k", "above 0, since EDL takes powers of sums that begin with k")
	}
	if !(s.Float("alpha") >= 0) {
		return opkit.BadAttr(s, "alpha", "at least 0")
	}
	s.Like("Out", "X")
	s.Like("MidOut", "X")
	return nil
}

// lrnShape returns what the kernels need to know, and the number of images.
func lrnShape(b *ops.Binding, last bool) (*kernel.LRNShape, int) {
	n, c, plane := channelsOf(firstly(b.In("X").Dims(), last))
	return &kernel.LRNShape{Channels: c, Plane: plane, Size: int(b.Int("n")), K: b.Float("k"), Alpha: b.Float("alpha"), Beta: b.Float("beta")}, n
}

func bindLRN[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	shape, images := lrnShape(b, a.last)
	x, to, mid := a.in("X"), a.out("Out"), a.out("MidOut")
	for _, t := range []**tensor.Tensor{&to, &mid} {
		if *t == nil {
			*t = b.Scratch(x.DType(), x.Len())
		}
	}
	return a.loops(ops.Loop{N: images, Run: func(_, from, till int) error {
		kernel.LRN(shape, till-from, opkit.Owned[T](to, from, till, images), opkit.Owned[T](mid, from, till, images), opkit.Owned[T](x, from, till, images))
		return nil
	}})
}

func bindLRNGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	a := &arranged[T]{b: b, last: channelsLast(b, "data_format")}
	shape, images := lrnShape(b, a.last)
	x, mid, y, dy, dx := a.in("X"), a.in("MidOut"), a.in("Out"), a.in("Out@GRAD"), a.out("X@GRAD")
	each := shape.Channels * shape.Plane
	work := b.Scratch(x.DType(), b.Parts()*each)
	return a.loops(ops.Loop{N: images, Run: func(part, from, to int) error {
		kernel.LRNGrad(shape, to-from, opkit.Owned[T](dx, from, to, images), opkit.Owned[T](x, from, to, images), opkit.Owned[T](mid, from, to, images),
			opkit.Owned[T](y, from, to, images), opkit.Owned[T](dy, from, to, images), ops.Part(tensor.Data[T](work), part, each))
		return nil
	}})
}
