package opkit

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// A Mixing is the MixesRows of an op (see ops.Def).
type Mixing = func(s *ops.Shapes, divided func(slot string) bool) bool

// Mixes is the Mixing of an op that reduces or reorders all rows.
func Mixes(*ops.Shapes, func(string) bool) bool { return true }

// MixesUnlike is the Mixing of an op whose inputs all have the rows of the batch. If one is divided and another is the same on all trainers, their rows do not
// meet.
func MixesUnlike(s *ops.Shapes, divided func(string) bool) bool {
	some, all := false, true
	for slot := range s.Op().Inputs {
		if s.Has(slot) {
			some, all = some || divided(slot), all && divided(slot)
		}
	}
	return some && !all
}

// MixesAlong makes the Mixing of an op that works along an axis of its input slot, which the named attribute gives: it mixes rows where that is axis 0.
func MixesAlong(slot, attr string) Mixing {
	return func(s *ops.Shapes, _ func(string) bool) bool {
		axis := s.Int(attr)
		return axis == 0 || axis == -int64(len(s.In(slot).Dims))
	}
}

// MixesAlongAny is MixesAlong for an attribute that lists axes.
func MixesAlongAny(slot, attr string) Mixing {
	return func(s *ops.Shapes, _ func(string) bool) bool {
		axes := s.Ints(attr)
		return slices.Contains(axes, 0) || slices.Contains(axes, -int64(len(s.In(slot).Dims)))
	}
}

// RowsOnlyIn makes the Mixing of an op whose slots hold rows of the batch, and all others what is equal for every row, such as weights.
func RowsOnlyIn(slots ...string) Mixing {
	return func(s *ops.Shapes, divided func(string) bool) bool {
		for slot := range s.Op().Inputs {
			if divided(slot) && !slices.Contains(slots, slot) {
				return true
			}
		}
		return false
	}
}

// MixesShape is the Mixing of an op that gives the elements of X other dims, such as reshape: rows stay apart if each row of X becomes one or more whole
// rows of Out.
func MixesShape(s *ops.Shapes, _ func(string) bool) bool {
	x, out := s.In("X").Dims, s.Outs("Out")
	if len(x) == 0 || len(out) == 0 || len(out[0].Dims) == 0 {
		return true
	}
	from, to := ops.Product(x[1:]), ops.Product(out[0].Dims[1:])
	if slices.Equal(x[1:], out[0].Dims[1:]) {
		return false
	}
	if out[0].Dims[0] >= 0 && x[0] < 0 { // a fixed number of rows
		return true
	}
	return from < 0 || to <= 0 || from%to != 0
}

// RowsTogether is RowsOnlyIn for slots whose rows belong together: all of them that hold a variable are divided, or none.
func RowsTogether(slots ...string) Mixing {
	only := RowsOnlyIn(slots...)
	return func(s *ops.Shapes, divided func(string) bool) bool {
		some, all := false, true
		for _, slot := range slots {
			if s.Has(slot) {
				some, all = some || divided(slot), all && divided(slot)
			}
		}
		return some && !all || only(s, divided)
	}
}
