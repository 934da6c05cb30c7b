package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A rearrangement moves the elements of images: it sees X with other dims, permutes their axes, and gives the result its own dims.
type rearrangement struct {
	name, doc, outDoc string
	attrs             []ops.Attr
	// out returns the dims of Out, of which some may be open, and checks the attributes. x has rank 4.
	out func(s *ops.Shapes, x []int64) ([]int64, error)
	// view returns the dims that X is seen with, and the permutation. No extent of x is 0.
	view func(a rearrangedAttrs, x []int64) (dims, order []int)
}

// rearrangedAttrs is what Shapes and Binding know of attributes.
type rearrangedAttrs interface {
	attributes
	Int(name string) int64
}

func init() {
	rearrangement{
		name: "pixel_shuffle",
		doc: "Makes larger images of fewer channels (Shi et al. 2016): with r = upscale_factor, pixel (y*r + i, x*r + j) of channel c is pixel (y, x) of " +
			"channel c*r*r + i*r + j of X.",
		outDoc: "[N, C/(r*r), H*r, W*r], laid out as X",
		attrs:  []ops.Attr{{Name: "upscale_factor", Doc: "how much larger images become, at least 1", Default: int32(1)}, dataFormatAttr("data_format")},
		out: func(s *ops.Shapes, x []int64) ([]int64, error) {
			if err := checkLayout(s, "data_format"); err != nil {
				return nil, err
			}
			r, last := s.Int("upscale_factor"), channelsLast(s, "data_format")
			x = firstly(x, last)
			if r < 1 || r > mostWindow || x[1] >= 0 && x[1]%(r*r) != 0 {
				return nil, opkit.BadAttr(s, "upscale_factor", "a number whose square divides the %d channels", x[1])
			}
			return lastly([]int64{x[0], over(x[1], r*r), times(x[2], r), times(x[3], r)}, last), nil
		},
		view: func(a rearrangedAttrs, x []int64) (dims, order []int) {
			r := int(a.Int("upscale_factor"))
			n, c, h, w := extents(firstly(x, channelsLast(a, "data_format")))
			if channelsLast(a, "data_format") {
				return []int{n, h, w, c / (r * r), r, r}, []int{0, 1, 4, 2, 5, 3}
			}
			return []int{n, c / (r * r), r, r, h, w}, []int{0, 1, 4, 2, 5, 3}
		},
	}.register()

	rearrangement{
		name: "pixel_unshuffle",
		doc: "Makes smaller images of more channels, as pixel_shuffle does backwards: with r = downscale_factor, pixel (y, x) of channel c*r*r + i*r + j is " +
			"pixel (y*r + i, x*r + j) of channel c of X.",
		outDoc: "[N, C*r*r, H/r, W/r], laid out as X",
		attrs:  []ops.Attr{{Name: "downscale_factor", Doc: "how much smaller images become, at least 1; it divides H and W", Default: int32(1)}, dataFormatAttr("data_format")},
		out: func(s *ops.Shapes, x []int64) ([]int64, error) {
			if err := checkLayout(s, "data_format"); err != nil {
				return nil, err
			}
			r, last := s.Int("downscale_factor"), channelsLast(s, "data_format")
			x = firstly(x, last)
			if r < 1 || r > mostWindow || x[2] >= 0 && x[2]%r != 0 || x[3] >= 0 && x[3]%r != 0 {
				return nil, opkit.BadAttr(s, "downscale_factor", "a number that divides the height %d and the width %d", x[2], x[3])
			}
			return lastly([]int64{x[0], times(x[1], r*r), over(x[2], r), over(x[3], r)}, last), nil
		},
		view: func(a rearrangedAttrs, x []int64) (dims, order []int) {
			r := int(a.Int("downscale_factor"))
			n, c, h, w := extents(firstly(x, channelsLast(a, "data_format")))
			if channelsLast(a, "data_format") {
				return []int{n, h / r, r, w / r, r, c}, []int{0, 1, 3, 5, 2, 4}
			}
			return []int{n, c, h / r, r, w / r, r}, []int{0, 1, 3, 5, 2, 4}
		},
	}.register()

	rearrangement{
		name: "shuffle_channel",
		doc: "Exchanges channels between groups (Zhang et al. 2018): channel i*group + g of Out is channel g*(C/group) + i of X, so that each group of the " +
			"next convolution sees all groups of the one before.",
		outDoc: "of the shape and type of X",
		attrs:  []ops.Attr{{Name: "group", Doc: "number of groups, a divisor of C", Default: int32(1)}},
		out: func(s *ops.Shapes, x []int64) ([]int64, error) {
			if g := s.Int("group"); g < 1 || x[1] >= 0 && x[1]%g != 0 {
				return nil, opkit.BadAttr(s, "group", "a divisor of the %d channels", x[1])
			}
			return x, nil
		},
		view: func(a rearrangedAttrs, x []int64) (dims, order []int) {
			g := int(a.Int("group"))
			n, c, h, w := extents(x)
			return []int{n, g, c / g, h, w}, []int{0, 2, 1, 3, 4}
		},
	}.register()

	rearrangement{
		name: "space_to_depth",
		doc: "Moves elements as the layer reorg of YOLO v2 does: with b = blocksize, X becomes images [N, C/(b*b), H*b, W*b], whose pixel (y*b + i, x*b + j) of " +
			"channel c is pixel (y, x) of channel (i*b + j)*C/(b*b) + c of X. Their elements, in order, are those of Out.",
		outDoc: "[N, C*b*b, H/b, W/b]",
		attrs:  []ops.Attr{{Name: "blocksize", Doc: "above 1; it divides H and W, and its square divides C", Default: int64(2)}},
		out: func(s *ops.Shapes, x []int64) ([]int64, error) {
			b := s.Int("blocksize")
			if b < 2 || b > mostWindow || x[1] >= 0 && x[1]%(b*b) != 0 || x[2] >= 0 && x[2]%b != 0 || x[3] >= 0 && x[3]%b != 0 {
				return nil, opkit.BadAttr(s, "blocksize", "a number above 1 that divides height and width of X %v, and whose square divides the channels", x)
			}
			return []int64{x[0], times(x[1], b*b), over(x[2], b), over(x[3], b)}, nil
		},
		view: func(a rearrangedAttrs, x []int64) (dims, order []int) {
			b := int(a.Int("blocksize"))
			n, c, h, w := extents(x)
			return []int{n, b, b, c / (b * b), h, w}, []int{0, 3, 4, 1, 5, 2}
		},
	}.register()
}

// over divides an extent that may be open.
func over(extent, by int64) int64 {
	if extent < 0 {
		return program.Unknown
	}
	return extent / by
}

// times multiplies an extent that may be open. The product is open if it overflows.
func times(extent, by int64) int64 { return ops.Product([]int64{extent, by}) }

func extents(x []int64) (n, c, h, w int) { return int(x[0]), int(x[1]), int(x[2]), int(x[3]) }

func (r rearrangement) register() {
	opkit.Register(ops.Def{
		Type: r.name, Doc: r.doc,
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type, [N, C, H, W]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: r.outDoc}},
		Attrs:   r.attrs,
		Infer: func(s *ops.Shapes) error {
			if err := s.Rank("X", 4); err != nil {
				return err
			}
			dims, err := r.out(s, s.In("X").Dims)
			if err != nil {
				return err
			}
			s.Set("Out", s.In("X").DType, dims...)
			s.ShareLoD("Out", "X")
			return nil
		},
		Bind: opkit.BindElements("X", bindRearranged[float32](r), bindRearranged[float64](r), bindRearranged[int32](r), bindRearranged[int64](r),
			bindRearranged[bool](r)),
	}, opkit.Gradient{
		Doc:    "dX is dOut with its elements moved back.",
		Inputs: []string{"X"}, Wrt: []string{"X"},
		Bind: opkit.BindFloats("X", bindRearrangedGrad[float32](r), bindRearrangedGrad[float64](r)),
	})
}

func bindRearranged[T tensor.Element](r rearrangement) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dims, order := r.view(b, b.In("X").Dims())
		return moveImages[T](b, b.Out("Out"), b.In("X"), dims, order)
	}
}

func bindRearrangedGrad[T tensor.Float](r rearrangement) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dims, order := r.view(b, b.In("X").Dims())
		permuted, inverse := make([]int, len(dims)), make([]int, len(dims))
		for i, axis := range order {
			permuted[i], inverse[axis] = dims[axis], i
		}
		return moveImages[T](b, b.Out("X@GRAD"), b.In("Out@GRAD"), permuted, inverse)
	}
}

// moveImages permutes the axes of each image. Axis 0 of dims is that of images, and stays.
func moveImages[T tensor.Element](b *ops.Binding, to, from *tensor.Tensor, dims, order []int) (ops.Kernel, error) {
	n, within := dims[0], make([]int, len(order)-1)
	for i, axis := range order[1:] {
		within[i] = axis - 1
	}
	plan := kernel.NewTransposePlan(dims[1:], within)
	size := to.Len() / n
	return opkit.Loop(b, n, func(first, last int) {
		out, in := tensor.Data[T](to), tensor.Data[T](from)
		for i := first; i < last; i++ {
			kernel.Transpose(&plan, out[i*size:][:size], in[i*size:][:size], 0, plan.Iterations())
		}
	})
}
