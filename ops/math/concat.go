package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "concat",
		Doc:  "Joins tensors along an axis, in the order of X.",
		Inputs: []ops.Slot{{Name: "X", Doc: "any type; dims are equal except on the axis", Duplicable: true, Stored: true},
			tensorOf("AxisTensor", "axis")},
		Outputs: out("Out", "the extents along the axis add up"),
		Attrs:   []ops.Attr{{Name: "axis", Doc: "axis to join along; negative counts from the end", Default: int32(0), Tensor: "AxisTensor"}},
		Infer:   inferConcat,
		Bind: opkit.BindBits("Out", bindConcat[float32], bindConcat[float64], bindConcat[int32],
			bindConcat[int64], bindConcat[bool], bindConcat[uint16]),
		MixesRows: opkit.MixesAlong("X", "axis"),
	}, opkit.Gradient{
		Doc:    "each dX is its part of dOut.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Bind:   opkit.BindFloats("Out@GRAD", bindConcatGrad[float32], bindConcatGrad[float64]),
	})
}

func inferConcat(s *ops.Shapes) error {
	if err := s.SameType("X"); err != nil {
		return err
	}
	parts := s.Ins("X")
	joined := slices.Clone(parts[0].Dims)
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(joined))
	if err != nil {
		return err
	}
	for _, part := range parts[1:] {
		if len(part.Dims) != len(joined) {
			return s.Errorf("X", "equal ranks, not also %v", part.Dims)
		}
		for i, extent := range part.Dims {
			switch {
			case i == axis:
				if joined[i], err = addExtents(s, joined[i], extent); err != nil {
					return err
				}
			case !opkit.Agree(joined[i], extent):
				return s.Errorf("X", "equal extents but for axis %d, not also %v", axis, part.Dims)
			default:
				joined[i] = max(joined[i], extent) // a known extent over an open one
			}
		}
	}
	m := parts[0]
	m.Dims = joined
	if axis == 0 {
		m = m.WithoutLoD()
	}
	s.SetAt("Out", 0, m)
	return nil
}

// addExtents adds two extents along the axis of a concat. If one is open, so is the sum.
func addExtents(s *ops.Shapes, a, b int64) (int64, error) {
	switch {
	case a == program.Unknown || b == program.Unknown:
		return program.Unknown, nil
	case a > math.MaxInt64-b:
		return 0, s.Errorf("X", "extents whose sum does not overflow")
	}
	return a + b, nil
}

// A part is the place of one tensor in a joined tensor, as kernel.CopyStrided needs it.
type part struct {
	tensor                *tensor.Tensor // nil when nobody wants it
	offset, width, stride int            // in the joined tensor: where it begins, a run of it, the distance of runs
	runs                  int
}

// partsAlong returns the parts of the tensors in a joined tensor of dims joined. They lie one after another along the axis.
func partsAlong(joined []int64, axis int, tensors []*tensor.Tensor, extents []int64) []part {
	after := opkit.Count(joined[axis+1:])
	parts, offset := make([]part, len(tensors)), 0
	for i, t := range tensors {
		width := int(extents[i]) * after
		parts[i] = part{tensor: t, offset: offset, width: width, stride: int(joined[axis]) * after, runs: opkit.Count(joined[:axis])}
		offset += width
	}
	return parts
}

// copyParts makes the result of a Bind that copies runs of all parts. If there is one run, a part is one piece of the joined tensor.
func copyParts(b *ops.Binding, from, to string, parts []part, run func(from, to int)) (ops.Kernel, error) {
	complete := !slices.ContainsFunc(parts, func(p part) bool { return p.tensor == nil })
	return b.Loops(ops.Loop{N: parts[0].runs, Reads: []string{from}, Writes: []string{to}, Copies: parts[0].runs == 1 && complete,
		Run: func(_, from, to int) error {
			run(from, to)
			return nil
		}})
}

// join copies the parts into the joined tensor.
func join[T tensor.Bits](b *ops.Binding, joined *tensor.Tensor, parts []part) (ops.Kernel, error) {
	return copyParts(b, "X", "Out", parts, func(from, to int) {
		whole := tensor.Data[T](joined)
		for _, p := range parts {
			kernel.CopyStrided(whole, p.offset+from*p.stride, p.stride, tensor.Data[T](p.tensor), from*p.width, p.width, to-from, p.width)
		}
	})
}

// cut copies the parts out of the joined tensor, from one slot to another.
func cut[T tensor.Element](b *ops.Binding, fromSlot, toSlot string, joined *tensor.Tensor, parts []part) (ops.Kernel, error) {
	return copyParts(b, fromSlot, toSlot, parts, func(from, to int) {
		whole := tensor.Data[T](joined)
		for _, p := range parts {
			if p.tensor != nil {
				kernel.CopyStrided(tensor.Data[T](p.tensor), from*p.width, p.width, whole, p.offset+from*p.stride, p.stride, to-from, p.width)
			}
		}
	})
}

// axisOf returns the attribute axis as a number in [0, rank). Infer has checked it.
func axisOf(b *ops.Binding, rank int) int {
	axis := int(b.Int("axis"))
	if axis < 0 {
		axis += rank
	}
	return axis
}

func extentsAlong(axis int, tensors []*tensor.Tensor) []int64 {
	extents := make([]int64, len(tensors))
	for i, t := range tensors {
		extents[i] = t.Dims()[axis]
	}
	return extents
}

func bindConcat[T tensor.Bits](b *ops.Binding) (ops.Kernel, error) {
	to, axis := b.Out("Out"), axisOf(b, len(b.Out("Out").Dims()))
	return join[T](b, to, partsAlong(to.Dims(), axis, b.Ins("X"), extentsAlong(axis, b.Ins("X"))))
}

func bindConcatGrad[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	from, axis := b.In("Out@GRAD"), axisOf(b, len(b.In("Out@GRAD").Dims()))
	gradients := make([]*tensor.Tensor, len(b.Ins("X")))
	copy(gradients, b.Outs("X@GRAD"))
	return cut[T](b, "Out@GRAD", "X@GRAD", from, partsAlong(from.Dims(), axis, gradients, extentsAlong(axis, b.Ins("X"))))
}

func init() {
	ops.Register(ops.Def{
		Type:    "split",
		Doc:     "Divides X along an axis into as many parts as Out has variables: equal parts, or parts with the extents in sections.",
		Inputs:  append(in("X", "any type"), tensorOf("AxisTensor", "axis"), tensorsOf("SectionsTensorList", "sections")),
		Outputs: []ops.Slot{{Name: "Out", Doc: "the parts in order", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: "num", Doc: "number of equal parts; 0 if sections is set", Default: int32(0)},
			{Name: "sections", Doc: "extents of the parts along the axis; one may be -1, which takes what remains", Default: []int32{}, Tensors: "SectionsTensorList"},
			{Name: "axis", Doc: "axis to divide; negative counts from the end", Default: int32(0), Tensor: "AxisTensor"}},
		Infer:    inferSplit,
		Gradient: splitGradient,
		Bind:     opkit.BindElements("X", bindSplit[float32], bindSplit[float64], bindSplit[int32], bindSplit[int64], bindSplit[bool]),

		MixesRows: opkit.MixesAlong("X", "axis"),
	})
}

func inferSplit(s *ops.Shapes) error {
	x := s.In("X")
	axis, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(x.Dims))
	if err != nil {
		return err
	}
	sections, err := splitSections(s, x.Dims[axis], len(s.Outs("Out")))
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
func splitSections(a attributes, extent int64, parts int) ([]int64, error) {
	if num := a.Int("num"); num != 0 {
		if num != int64(parts) || extent >= 0 && extent%num != 0 {
			return nil, opkit.BadAttr(a, "num", "%d, the variables of Out, dividing the extent %d", parts, extent)
		}
		if extent >= 0 {
			extent /= num
		}
		return slices.Repeat([]int64{extent}, parts), nil
	}
	sections, rest, remainder := a.Ints("sections"), extent, -1
	wrong := opkit.BadAttr(a, "sections", "%d extents, for the variables of Out, that sum to %d; one may be -1", parts, extent)
	if len(sections) != parts {
		return nil, wrong
	}
	open := extent < 0
	for i, part := range sections {
		switch {
		case part == ops.Open:
			sections[i], open = program.Unknown, true
		case part == -1 && remainder < 0:
			remainder = i
		case part < 0 || !open && part > rest:
			return nil, wrong
		default:
			rest -= part
		}
	}
	switch {
	case open: // what remains is open, too
	case remainder >= 0:
		sections[remainder] = rest
	case rest != 0:
		return nil, wrong
	}
	return sections, nil
}

func splitGradient(g *ops.Grad) ([]*program.Op, error) {
	return joinGradients(g, "Out", "concat", "Out")
}

func bindSplit[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, outs := b.In("X"), b.Outs("Out")
	axis := axisOf(b, len(x.Dims()))
	extents, err := splitSections(b, x.Dims()[axis], len(outs))
	if err != nil {
		return nil, err
	}
	return cut[T](b, "X", "Out", x, partsAlong(x.Dims(), axis, outs, extents))
}
