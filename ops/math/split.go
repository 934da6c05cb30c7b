package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "split",
		Doc:     "Cuts X along an axis into as many parts as Out has variables: equal ones, or of the extents in sections.",
		Inputs:  in("X", "any type"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "the parts in order", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: "num", Doc: "number of equal parts; 0 when sections says it", Default: int32(0)},
			{Name: "sections", Doc: "extents of the parts along the axis", Default: []int32{}},
			{Name: "axis", Doc: "where to cut; negative from the end", Default: int32(0)}},
		Infer:    inferSplit,
		Gradient: splitGradient,
		Bind:     opkit.BindElements("X", bindSplit[float32], bindSplit[float64], bindSplit[int32], bindSplit[int64], bindSplit[bool]),
	})
}

func inferSplit(s *ops.Shapes) error {
	x := s.In("X")
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(x.Dims))
	if err != nil {
		return err
	}
	sections, err := splitSections(s, x.Dims[axis])
	if err != nil {
		return err
	}
	for i, extent := range sections {
		m := x
		m.Dims = slices.Clone(x.Dims)
		m.Dims[axis] = extent
		if axis == 0 {
			m = m.WithoutLoD()
		}
		s.SetAt("Out", i, m)
	}
	return nil
}

// splitSections returns the extents of the parts of an extent.
func splitSections(s *ops.Shapes, extent int64) ([]int64, error) {
	parts := len(s.Outs("Out"))
	if num := s.Int("num"); num != 0 {
		if num != int64(parts) || extent >= 0 && extent%num != 0 {
			return nil, opkit.BadAttr(s, "num", "%d, the variables of Out, dividing the extent %d", parts, extent)
		}
		if extent >= 0 {
			extent /= num
		}
		return slices.Repeat([]int64{extent}, parts), nil
	}
	sections, rest := s.Ints("sections"), extent
	wrong := opkit.BadAttr(s, "sections", "%d extents, for the variables of Out, that sum to %d", parts, extent)
	if len(sections) != parts {
		return nil, wrong
	}
	for _, part := range sections {
		if part < 0 || extent >= 0 && part > rest {
			return nil, wrong
		}
		rest -= part
	}
	if extent >= 0 && rest != 0 {
		return nil, wrong
	}
	return sections, nil
}

// splitGradient joins the gradients of the parts; one that did not arrive is zeros.
func splitGradient(g *ops.Grad) ([]*program.Op, error) {
	var list []*program.Op
	arrived := g.OutGrad("Out")
	for i, name := range arrived {
		if name != program.Empty {
			continue
		}
		zeros := g.GradOp("fill_zeros_like")
		arrived[i] = program.GradName(g.Out("Out")[i])
		zeros.Inputs["X"], zeros.Outputs["Out"] = g.Out("Out")[i:i+1], arrived[i:i+1]
		list = append(list, zeros)
	}
	op := g.GradOp("concat")
	op.Inputs["X"], op.Outputs["Out"] = arrived, g.InGrad("X")
	return append(list, op), nil
}

func bindSplit[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, outs := b.In("X"), b.Outs("Out")
	axis := axisOf(b, len(x.Dims()))
	extents := b.Ints("sections")
	if num := b.Int("num"); num != 0 {
		extents = slices.Repeat([]int64{x.Dims()[axis] / num}, len(outs))
	}
	return cut[T](b, x, partsAlong(x.Dims(), axis, outs, extents))
}
