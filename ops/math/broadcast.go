package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// Fluid's broadcasting lays Y over axes of X that follow each other. The attribute axis names the first of them; -1 lays the
// last axis of Y over the last of X. Trailing extents of 1 are then dropped from Y, so that Y of one element lies over
// none. X is thereby seen as [pre, n, post] and Y as [n].

var axisAttr = ops.Attr{Name: "axis", Doc: "axis of X where Y begins; -1 lays Y over the last axes", Default: int32(-1)}

// coveredAxes returns the axes [first, last) of X that Y lies over; ok is false when Y does not fit there.
func coveredAxes(x, y []int64, axis int64) (first, last int, ok bool) {
	if len(y) > len(x) || axis < -1 || axis > int64(len(x)) {
		return 0, 0, false
	}
	if axis == -1 {
		axis = int64(len(x) - len(y))
	}
	for len(y) > 0 && y[len(y)-1] == 1 {
		y = y[:len(y)-1]
	}
	if len(y) == 0 {
		return 0, 0, true
	}
	first, last = int(axis), int(axis)+len(y)
	return first, last, last <= len(x) && ops.Compatible(x[first:last], y)
}

// inferBroadcast checks that Y fits over X and gives Out the dims of X.
func inferBroadcast(s *ops.Shapes) error {
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	first, last, ok := coveredAxes(x, y, s.Int("axis"))
	if !ok {
		return s.Errorf("Y", "dims that follow each other in X %v from axis %d on", x, s.Int("axis"))
	}
	m := s.In("X")
	m.Dims = slices.Clone(x)
	for i := first; i < last; i++ {
		m.Dims[i] = max(x[i], y[i-first]) // a known extent over an open one
	}
	s.SetAt("Out", 0, m)
	return nil
}

// layout returns X as [pre, n, post] and Y as [n]. For an X without elements pre is 0.
func layout(b *ops.Binding, x, y []int64) (pre, n, post int) {
	first, last, _ := coveredAxes(x, y, b.Int("axis"))
	if opkit.Count(x) == 0 {
		return 0, opkit.Count(x[first:last]), 0
	}
	return opkit.Count(x[:first]), opkit.Count(x[first:last]), opkit.Count(x[last:])
}

// Ranges says how a loop over [pre, n, post] is cut into ranges: along Y, whose elements then go with those of X, or along an axis that Y does
// not have, so that each range needs all of Y.
type ranges struct {
	n   int // iterations
	byY bool
}

func rangesOf(pre, n, post int) ranges {
	switch {
	case pre != 1:
		return ranges{n: pre}
	case n == 1 && post != 1:
		return ranges{n: post}
	}
	return ranges{n: n, byY: true}
}

// whole names the inputs that a range needs all of.
func (r ranges) whole() []string {
	if r.byY {
		return nil
	}
	return []string{"Y"}
}

// extents returns what a range sees of [pre, n, post].
func (r ranges) extents(from, to, pre, n, post int) (int, int, int) {
	switch {
	case pre != 1:
		return to - from, n, post
	case r.byY:
		return 1, to - from, post
	}
	return 1, 1, to - from
}

// ofY returns what a range needs of Y, or of its gradient.
func ofY[T tensor.Element](r ranges, y *tensor.Tensor, from, to int) []T {
	if r.byY {
		return opkit.Owned[T](y, from, to, r.n)
	}
	return opkit.Data[T](y)
}
