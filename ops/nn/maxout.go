package nn

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "maxout",
		Doc: "Takes the largest of neighbouring channels (Goodfellow et al. 2013): channel c of Out is the largest of the channels c*groups to " +
			"(c+1)*groups - 1 of X.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, rank 2 or more"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X, with a groups-th of its channels"}},
		Attrs: []ops.Attr{{Name: "groups", Doc: "channels that make one, a divisor of the channels of X", Kind: int32(0)},
			{Name: "axis", Doc: "axis of channels; negative counts from the end", Default: int32(1)}},
		Infer: inferMaxout,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("X", bindMaxout[float32], bindMaxout[float64]),

		MixesRows: opkit.MixesAlong("X", "axis"),
	}, opkit.Gradient{
		Doc:     "dX is dOut for the first of the channels that has the largest element, 0 for the others.",
		Inputs:  []string{"X"},
		Outputs: []string{"Out"},
		Wrt:     []string{"X"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("X", bindMaxoutGrad[float32], bindMaxoutGrad[float64]),
	})
}

func inferMaxout(s *ops.Shapes) error {
	x, groups := s.In("X"), s.Int("groups")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(x.Dims))
	if err != nil {
		return err
	}
	channels := x.Dims[axis]
	if groups < 1 || channels >= 0 && channels%groups != 0 {
		return opkit.BadAttr(s, "groups", "a divisor of the %d channels", channels)
	}
	x.Dims = slices.Clone(x.Dims)
	if x.Dims[axis] = program.Unknown; channels >= 0 {
		x.Dims[axis] = channels / groups
	}
	if axis == 0 {
		x = x.WithoutLoD()
	}
	s.SetAt("Out", 0, x)
	return s.IsFloat("X")
}

func bindMaxout[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	c, groups := columnsOf(b, to.Dims()), int(b.Int("groups"))
	return opkit.Loop(b, c.rows, func(from, till int) {
		kernel.Maxout(opkit.Owned[T](to, from, till, c.rows), opkit.Owned[T](x, from, till, c.rows), till-from, c.classes, groups, c.inner)
	})
}

func bindMaxoutGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx := b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	c, groups := columnsOf(b, dout.Dims()), int(b.Int("groups"))
	return opkit.Loop(b, c.rows, func(from, to int) {
		kernel.MaxoutGrad(opkit.Owned[T](dx, from, to, c.rows), opkit.Owned[T](x, from, to, c.rows), opkit.Owned[T](y, from, to, c.rows),
			opkit.Owned[T](dout, from, to, c.rows), to-from, c.classes, groups, c.inner)
	})
}
