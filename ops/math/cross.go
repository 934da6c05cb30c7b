package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// firstOfThree is the value of the attribute dim that stands for the first axis of three places.
const firstOfThree = 9

func init() {
	opkit.Register(ops.Def{
		Type:    "cross",
		Doc:     "The cross product of vectors of three numbers along an axis: Out[0] = X[1]*Y[2] - X[2]*Y[1], and so on around.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers, with an axis of three places"}, {Name: "Y", Doc: "of the shape and type of X"}},
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "dim", Doc: "the axis; negative counts from the end, and 9 is the first of three places", Default: int32(firstOfThree)}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			if err := opkit.SameShape(s, "X", "Y"); err != nil {
				return err
			}
			if axis, err := crossAxis(s, x.Dims); err != nil {
				return err
			} else if !opkit.Agree(x.Dims[axis], 3) {
				return opkit.BadAttr(s, "dim", "an axis of three places of X %v", x.Dims)
			}
			s.Like("Out", "X")
			return nil
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			axis, err := crossAxis(s, s.In("X").Dims)
			return err != nil || axis == 0 || opkit.MixesUnlike(s, divided)
		},
		Cost: opkit.PerElement(3),
		Bind: opkit.BindNumbers("X", bindCross[float32], bindCross[float64], bindCross[int32], bindCross[int64]),
	}, opkit.Gradient{
		Doc: "dX is the cross product of Y and dOut, and dY that of dOut and X.", Inputs: []string{"X", "Y"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(6),
		Bind: opkit.BindFloats("X", bindCrossGrad[float32], bindCrossGrad[float64]),
	})
}

// crossAxis returns the axis of vectors. Where extents are open, it takes the first that may be of three places.
func crossAxis(s interface {
	opkit.Attributed
	Int(string) int64
}, dims []int64) (int, error) {
	if s.Int("dim") != firstOfThree {
		return opkit.AxisAttr(s, "dim", s.Int("dim"), len(dims))
	}
	open := -1
	for axis, extent := range dims {
		if extent == 3 {
			return axis, nil
		}
		if extent == program.Unknown && open < 0 {
			open = axis
		}
	}
	if open < 0 {
		return 0, opkit.BadAttr(s, "dim", "an axis, because none of dims %v has three places", dims)
	}
	return open, nil
}

// crossLoop multiplies the vectors of two tensors.
func crossLoop[T kernel.Number](b *ops.Binding, to, x, y *tensor.Tensor, slot string) ops.Loop {
	axis, _ := crossAxis(b, to.Dims())
	l := lanesAlong(to.Dims(), int64(axis), false)
	return ops.Loop{N: l.pre, Writes: []string{slot}, Run: func(_, from, till int) error {
		u, v, w := tensor.Data[T](x), tensor.Data[T](y), tensor.Data[T](to)
		for p := from; p < till; p++ {
			for q := range l.post {
				i := p*3*l.post + q
				j, k := i+l.post, i+2*l.post
				w[i], w[j], w[k] = T(u[j]*v[k])-T(u[k]*v[j]), T(u[k]*v[i])-T(u[i]*v[k]), T(u[i]*v[j])-T(u[j]*v[i])
			}
		}
		return nil
	}}
}

func bindCross[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	return b.Loops(crossLoop[T](b, b.Out("Out"), b.In("X"), b.In("Y"), "Out"))
}

func bindCrossGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout := b.In("X"), b.In("Y"), b.In("Out@GRAD")
	var loops []ops.Loop
	if dx := b.Out("X@GRAD"); dx != nil {
		loops = append(loops, crossLoop[T](b, dx, y, dout, "X@GRAD"))
	}
	if dy := b.Out("Y@GRAD"); dy != nil {
		loops = append(loops, crossLoop[T](b, dy, dout, x, "Y@GRAD"))
	}
	return b.Loops(loops...)
}
