package detection

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostNumbers bounds the lists of attributes, which say how many boxes each place has.
const mostNumbers = 1 << 10

// floats returns a list of numbers, and the given ones where the op does not set the attribute.
func floats(a opkit.Attributed, name string, otherwise ...float32) []float64 {
	if v, ok := a.Op().Floats(name); ok {
		return v
	}
	list := make([]float64, len(otherwise))
	for i, v := range otherwise {
		list[i] = float64(v)
	}
	return list
}

// positive reads a list of finite numbers above 0, of bounded length.
func positive(s *ops.Shapes, name string, otherwise ...float32) ([]float64, error) {
	list := floats(s, name, otherwise...)
	for _, v := range list {
		if !(v > 0) || math.IsInf(v, 0) || len(list) > mostNumbers {
			return nil, opkit.BadAttr(s, name, "up to %d numbers above 0", mostNumbers)
		}
	}
	return list, nil
}

var usualVariances = []float32{0.1, 0.1, 0.2, 0.2}

// variancesAttr is the list of what codes of boxes are divided by.
var variancesAttr = ops.Attr{Name: "variances", Doc: "four numbers above 0 that Variances repeats for each box", Default: usualVariances}

// fourVariances checks variancesAttr.
func fourVariances(s *ops.Shapes) error {
	v, err := positive(s, "variances", usualVariances...)
	if err == nil && len(v) != 4 {
		err = opkit.BadAttr(s, "variances", "four numbers above 0")
	}
	return err
}

// boxesOf checks that a slot holds float boxes [rows, 4].
func boxesOf(s *ops.Shapes, slot string) error {
	if err := s.IsFloat(slot); err != nil {
		return err
	}
	if !ops.Compatible(s.In(slot).Dims, []int64{program.Unknown, 4}) {
		return s.Errorf(slot, "boxes [rows, 4]")
	}
	return nil
}

// span is the extent of a box from one side to the other. Boxes in pixels include the pixels of both sides.
func span[T tensor.Float](first, last T, normalized bool) T {
	if normalized {
		return last - first
	}
	return last - first + 1
}

// offsetsOf returns the first row of each innermost sequence of an input slot, of which there are n, and the number of rows as the last element. Offsets come
// from outside, so it checks them.
func offsetsOf(b *ops.Binding, slot string, n int) ([]int64, error) {
	t := b.In(slot)
	lod := t.LoD()
	if err := tensor.CheckLoD(t); err != nil || len(lod) == 0 || len(lod[len(lod)-1]) != n+1 {
		return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In(slot)), fault.Gotf("LoD %v", lod), fault.Wantf("offsets of %d sequences", n))
	}
	return lod[len(lod)-1], nil
}
