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
	opkit.Register(ops.Def{
		Type: "spp",
		Doc: "Pools images of any extents to rows of one length (spatial pyramid pooling, He et al. 2014): level p, from 0 to pyramid_height-1, divides height and width into " +
			"2^p windows each, and gives the largest element or the mean of each. A window of level p has ceil(extent/2^p) elements along an axis, and half of what all of them " +
			"have too much lies before the image. A window that lies beside the image gives 0, where Fluid gives the smallest number or NaN.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, C, H, W]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, C*(4^pyramid_height-1)/3]: level by level, channel by channel"}},
		Attrs: []ops.Attr{
			{Name: "pyramid_height", Doc: "number of levels, 1 to 16", Kind: int32(0)},
			{Name: "pooling_type", Doc: "max or avg", Kind: ""}},
		Infer: inferSPP,
		Cost: func(s *ops.Shapes) ops.Cost {
			return ops.Cost{Flops: opkit.Size([]int64{opkit.Size(s.In("X").Dims), s.Int("pyramid_height")}), Bytes: opkit.Bytes(s)}
		},
		Bind: opkit.BindFloats("X", bindSPP[float32], bindSPP[float64]),
	}, opkit.Gradient{
		Doc:    "the sum over levels: max gives dOut to the first largest element of the window, avg an equal share to each.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Bind:   opkit.BindFloats("X", bindSPPGrad[float32], bindSPPGrad[float64]),
	})
}

func inferSPP(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, height := s.In("X").Dims, s.Int("pyramid_height")
	for _, extent := range x[2:] {
		if extent == 0 || extent > math.MaxInt32 {
			return s.Errorf("X", "images of extents in [1, %d]", math.MaxInt32)
		}
	}
	if height < 1 || height > 16 {
		return opkit.BadAttr(s, "pyramid_height", "1 to 16")
	}
	if kind := s.Str("pooling_type"); kind != "max" && kind != "avg" {
		return opkit.BadAttr(s, "pooling_type", "max or avg")
	}
	s.Set("Out", s.In("X").DType, x[0], ops.Product([]int64{x[1], (1<<(2*height) - 1) / 3}))
	return nil
}

// A pyramid is a bound spp, or its gradient.
type pyramid struct {
	levels   []kernel.Pool3DShape
	channels int
	largest  bool
	image    int // elements of an image, and of a row of Out
	row      int
}

func newPyramid(b *ops.Binding) *pyramid {
	dims := b.In("X").Dims()
	p := &pyramid{channels: int(dims[1]), largest: b.Str("pooling_type") == "max", image: opkit.Count(dims[1:])}
	for level := range int(b.Int("pyramid_height")) {
		shape := kernel.Pool3DShape{Depth: kernel.PoolAxis{In: 1, Out: 1, Kernel: 1, Stride: 1}}
		for i, axis := range []*kernel.PoolAxis{&shape.Height, &shape.Width} {
			extent, bins := int(dims[2+i]), 1<<level
			size := (extent + bins - 1) / bins
			*axis = kernel.PoolAxis{In: extent, Out: bins, Kernel: size, Stride: size, Padding: (size*bins - extent + 1) / 2}
		}
		p.levels = append(p.levels, shape)
		p.row += p.channels * shape.Outputs()
	}
	return p
}

// eachLevel calls do for each level of an image, with its part of a row of Out.
func eachLevel[T any](p *pyramid, row []T, do func(shape *kernel.Pool3DShape, part []T)) {
	for i := range p.levels {
		n := p.channels * p.levels[i].Outputs()
		do(&p.levels[i], row[:n])
		row = row[n:]
	}
}

func bindSPP[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, x, out := newPyramid(b), b.In("X"), b.Out("Out")
	width := p.levels[0].Width.In
	lines := b.Scratch(tensor.Of[T](), b.Parts()*width)
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(part, from, to int) error {
		line := ops.Part(tensor.Data[T](lines), part, width)
		for n := from; n < to; n++ {
			image := tensor.Data[T](x)[n*p.image:][:p.image]
			eachLevel(p, tensor.Data[T](out)[n*p.row:][:p.row], func(shape *kernel.Pool3DShape, part []T) {
				if p.largest {
					kernel.MaxPool3D(shape, p.channels, part, image, line)
				} else {
					kernel.AvgPool3D(shape, p.channels, true, part, image)
				}
			})
		}
		return nil
	}})
}

func bindSPPGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	p, x, dout, dx := newPyramid(b), b.In("X"), b.In(program.GradName("Out")), b.Out(program.GradName("X"))
	level := b.Scratch(tensor.Of[T](), b.Parts()*p.image)
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(part, from, to int) error {
		term := ops.Part(tensor.Data[T](level), part, p.image)
		for n := from; n < to; n++ {
			image, sum := tensor.Data[T](x)[n*p.image:][:p.image], tensor.Data[T](dx)[n*p.image:][:p.image]
			clear(sum)
			eachLevel(p, tensor.Data[T](dout)[n*p.row:][:p.row], func(shape *kernel.Pool3DShape, part []T) {
				if p.largest {
					kernel.MaxPool3DGrad(shape, p.channels, term, image, nil, part)
				} else {
					kernel.AvgPool3DGrad(shape, p.channels, true, term, part)
				}
				kernel.Add(sum, sum, term, 1, p.image, 1)
			})
		}
		return nil
	}})
}
