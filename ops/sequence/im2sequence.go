package sequence

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "im2sequence",
		Doc: "Makes a sequence of each image: its windows row by row, and each window as one row of Out, channel by channel. What lies beyond the border is 0. The real " +
			"sizes of padded images (Y, out_stride) are not supported.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [images, channels, height, width]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[images*windows, channels*kernel height*kernel width], of one LoD level"}},
		Attrs: []ops.Attr{
			{Name: "kernels", Doc: "height and width of a window", Kind: []int32(nil)},
			{Name: "strides", Doc: "rows and columns from one window to the next", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "rows above, columns left, rows below, columns right", Default: []int32{0, 0, 0, 0}},
			{Name: "out_stride", Doc: "only 1, 1", Default: []int32{1, 1}, Check: func(op *program.Op) error {
				for _, n := range mustInts(op, "out_stride") {
					if n != 1 {
						return fault.New(fault.Unsupported, "1, 1")
					}
				}
				return nil
			}}},
		Infer: inferIm2Sequence,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("X", bindIm2Sequence[float32], bindIm2Sequence[float64]),
	}, opkit.Gradient{
		Doc:    "dX is the sum of dOut over the windows that an element lies in.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindIm2SequenceGrad[float32], bindIm2SequenceGrad[float64]),
	})
}

func mustInts(op *program.Op, name string) []int64 {
	list, _ := op.Ints(name)
	return list
}

// A framing says where the windows of an image lie: h and w are axis 0 and 1.
type framing struct {
	channels              int
	size, kernel, windows [2]int64 // windows is program.Unknown where the size is
	stride, pad           [2]int64 // pad is that above and left
}

func framingOf(attrs interface{ Ints(string) []int64 }, dims []int64) (f framing, wrong string) {
	kernels, strides, paddings := attrs.Ints("kernels"), attrs.Ints("strides"), attrs.Ints("paddings")
	switch {
	case len(kernels) != 2:
		return f, "kernels"
	case len(strides) != 2:
		return f, "strides"
	case len(paddings) != 4:
		return f, "paddings"
	}
	for axis := range 2 {
		after := paddings[axis+2]
		f.size[axis], f.kernel[axis], f.stride[axis], f.pad[axis] = dims[axis+2], kernels[axis], strides[axis], paddings[axis]
		switch {
		case f.kernel[axis] < 1:
			return f, "kernels"
		case f.stride[axis] < 1:
			return f, "strides"
		case f.pad[axis] < 0 || after < 0:
			return f, "paddings"
		case f.size[axis] < 0:
			f.windows[axis] = program.Unknown
		case f.size[axis] > math.MaxInt32 || f.size[axis]+f.pad[axis]+after < f.kernel[axis]:
			return f, "kernels"
		default:
			f.windows[axis] = (f.size[axis]+f.pad[axis]+after-f.kernel[axis])/f.stride[axis] + 1
		}
	}
	f.channels = int(dims[1])
	return f, ""
}

func inferIm2Sequence(s *ops.Shapes) error {
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	x := s.In("X")
	f, wrong := framingOf(s, x.Dims)
	if wrong != "" {
		return opkit.BadAttr(s, wrong, "two kernels and strides of at least 1, and four paddings of at least 0, so that a window fits into X %v", x.Dims)
	}
	windows := ops.Product(f.windows[:])
	s.Set("Out", x.DType, ops.Product([]int64{x.Dims[0], windows}), ops.Product([]int64{x.Dims[1], f.kernel[0], f.kernel[1]}))
	var lod [][]int64
	if rows := s.Outs("Out"); len(rows) > 0 && rows[0].Dims[0] >= 0 && x.Dims[0] <= math.MaxInt32 {
		lod = [][]int64{make([]int64, x.Dims[0]+1)}
		for i := range lod[0] {
			lod[0][i] = int64(i) * windows
		}
	}
	ops.MakeLoD(s, "Out", "", 1, lod)
	return nil
}

// each calls do for every run of elements of window w of an image that lies within: n elements of the row of Out from column on are those of the image from at on.
func (f *framing) each(w int64, do func(column, at, n int)) {
	top, left := w/f.windows[1]*f.stride[0]-f.pad[0], w%f.windows[1]*f.stride[1]-f.pad[1]
	from, to := max(0, -left), min(f.kernel[1], f.size[1]-left)
	if from >= to {
		return
	}
	for c := range int64(f.channels) {
		for i := range f.kernel[0] {
			if y := top + i; y >= 0 && y < f.size[0] {
				do(int((c*f.kernel[0]+i)*f.kernel[1]+from), int((c*f.size[0]+y)*f.size[1]+left+from), int(to-from))
			}
		}
	}
}

func bindIm2Sequence[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	f, _ := framingOf(b, x.Dims())
	images, windows, columns := int(x.Dims()[0]), f.windows[0]*f.windows[1], width(out, 1)
	return b.Loops(ops.Loop{N: images, Apart: true, Run: func(_, first, end int) error {
		for i := first; i < end; i++ {
			image := row(tensor.Data[T](x), i, x.Len()/images)
			for w := range windows {
				target := row(tensor.Data[T](out), i*int(windows)+int(w), columns)
				clear(target)
				f.each(w, func(column, at, n int) { copy(target[column:column+n], image[at:]) })
			}
		}
		return nil
	}})
}

func bindIm2SequenceGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	f, _ := framingOf(b, dx.Dims())
	images, windows, columns := int(dx.Dims()[0]), f.windows[0]*f.windows[1], width(dout, 1)
	return b.Loops(ops.Loop{N: images, Apart: true, Run: func(_, first, end int) error {
		for i := first; i < end; i++ {
			image := row(tensor.Data[T](dx), i, dx.Len()/images)
			clear(image)
			for w := range windows {
				source := row(tensor.Data[T](dout), i*int(windows)+int(w), columns)
				f.each(w, func(column, at, n int) {
					for j := range n {
						image[at+j] += source[column+j]
					}
				})
			}
		}
		return nil
	}})
}
